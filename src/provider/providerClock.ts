import { addSeconds, NANOS_PER_SECOND, parseHttpDate, type Instant } from "../domain/order/instant.ts";
import { CLOCK_TRUST_SECONDS } from "../domain/order/observation.ts";
import type { SourceClock } from "../domain/source/orderSource.ts";
import type { Clock } from "../process/clock.ts";

/** Until an answer has a `Date`, there is only a clock of ours, less this; with a larger error, claims become false. */
const LOCAL_CLOCK_ERROR_SECONDS = 30;
/** A `Date` header has a resolution of one second; the provider may round instead of truncating. */
const DATE_RESOLUTION = NANOS_PER_SECOND;
const TRUST = BigInt(CLOCK_TRUST_SECONDS) * NANOS_PER_SECOND;
/** Answers of the last two minutes, at most sixteen: the provider may have several machines with different clocks. */
const SAMPLE_AGE_MAX_MS = 120_000;
const SAMPLES_MAX = 16;

const NANOS_PER_MILLI_NUMBER = 1e6;

/** The `Date` of an answer, with the monotonic instant at which it arrived. */
interface TimedAnswer {
  readonly date: string | null;
  readonly receivedAtMs: number;
}

/**
 * The provider's clock. It is trusted only while it agrees with our database's; otherwise the earlier of the two
 * counts.
 */
export interface ProviderClock extends SourceClock {
  /** Learns from an answer; one without a readable `Date` header is ignored. */
  observe(answer: TimedAnswer): void;
  /** A lower bound of the provider's time at `monotonicMs` of the local monotonic clock. */
  instantAt(monotonicMs: number): Instant;
}

interface Sample {
  readonly receivedAtMs: number;
  /** The provider's time at monotonic zero, minus the header's resolution. */
  readonly origin: Instant;
}

export function makeProviderClock(clock: Clock): ProviderClock {
  let samples: readonly Sample[] = [];
  /** Our database's time at monotonic zero; undefined until it was compared. */
  let ours: Instant | undefined;

  const agrees = (origin: Instant) => ours === undefined || distance(origin, ours) <= TRUST;

  function observe({ date, receivedAtMs }: TimedAnswer): void {
    const sentAt = date === null ? null : parseHttpDate(date);
    if (sentAt === null) return;
    const origin = sentAt - DATE_RESOLUTION - nanos(receivedAtMs);
    // One right answer is enough to forget the wrong ones.
    const recent = samples.filter(
      (sample) =>
        sample.receivedAtMs > receivedAtMs - SAMPLE_AGE_MAX_MS && (agrees(sample.origin) || !agrees(origin)),
    );
    samples = [...recent, { receivedAtMs, origin }].slice(-SAMPLES_MAX);
  }

  /** The provider's time at monotonic zero, by what it said. */
  function leastOrigin(): Instant | undefined {
    return samples.reduce<Instant | undefined>(
      (least, { origin }) => (least === undefined || origin < least ? origin : least),
      undefined,
    );
  }

  function instantAt(monotonicMs: number): Instant {
    const origin = leastOrigin();
    if (origin === undefined) {
      const local = ours ?? clock.now() - nanos(clock.monotonicMs());
      return addSeconds(local + nanos(monotonicMs), -LOCAL_CLOCK_ERROR_SECONDS);
    }
    const bounded = ours === undefined || agrees(origin) || origin < ours ? origin : ours;
    return bounded + nanos(monotonicMs);
  }

  function disagreementSeconds(): number | null {
    const origin = leastOrigin();
    if (origin === undefined || ours === undefined || agrees(origin)) return null;
    return Number(origin - ours) / Number(NANOS_PER_SECOND);
  }

  return {
    observe,
    compareWith: (instant, atMs) => void (ours = instant - nanos(atMs)),
    disagreementSeconds,
    instantAt,
    providerNow: () => instantAt(clock.monotonicMs()),
    isSynchronized: () => samples.length > 0,
  };
}

function distance(one: Instant, other: Instant): bigint {
  return one > other ? one - other : other - one;
}

function nanos(millis: number): bigint {
  return BigInt(Math.round(millis * NANOS_PER_MILLI_NUMBER));
}
