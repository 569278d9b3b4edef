import { addSeconds, NANOS_PER_SECOND } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { ARRIVAL_AGE_MAX_SECONDS, boundOf } from "../../domain/window/lateness.ts";
import type { ArrivalCount } from "../../domain/window/lateness.ts";
import type { Window } from "../../domain/window/window.ts";
import type { ShownPage } from "../cycle/readWindow.ts";

/** A completely read window, with the start of its reading. */
interface WholeRead {
  readonly window: Window;
  readonly begunAt: Instant;
}

/** About ten megabytes; with more changes than that in six hours, the older half is no longer tracked. */
const SHOWN_MAX = 100_000;
const FORGET_EVERY_SECONDS = 600;

/**
 * Measures how late changes appear in the provider's list, no matter how they were first learned of: a change shown for
 * the first time in a window that was completely read before was not there then.
 */
export class ArrivalLog {
  readonly #shown = new Map<string, Instant>();
  #reads: WholeRead[] = [];
  #counts = new Map<string, ArrivalCount>();
  /** End of all windows read. */
  #reach: Instant | undefined;
  /** Changes older than this are no longer tracked. */
  #oldest: Instant = 0n;
  /** What is older was forgotten. */
  #forgotten: Instant = 0n;

  showPage({ requestedAt, rows }: Pick<ShownPage, "requestedAt" | "rows">): void {
    this.#age(requestedAt);
    for (const { reference, version } of rows) {
      if (reference === undefined || version === undefined || version < this.#oldest) continue;
      const key = `${reference} ${version}`;
      if (this.#shown.has(key)) continue;
      this.#shown.set(key, version);
      this.#count(version, requestedAt);
    }
    if (this.#shown.size > SHOWN_MAX) this.#forgetHalf();
  }

  /** `read` was completely read, and all its pages were shown here. */
  showWindow(read: WholeRead): void {
    this.#age(read.begunAt);
    this.#reads.push(read);
    if (this.#reach === undefined || read.window.until > this.#reach) this.#reach = read.window.until;
    // Searching for the old ones at each window would take longer than everything else in a quiet cycle.
    if (this.#oldest > addSeconds(this.#forgotten, FORGET_EVERY_SECONDS)) this.#forgetOld();
  }

  /** The counts since the last call. */
  take(): ArrivalCount[] {
    const counts = [...this.#counts.values()];
    this.#counts = new Map();
    return counts;
  }

  #count(version: Instant, requestedAt: Instant): void {
    const covers = ({ window }: WholeRead) => window.since <= version && version < window.until;
    const missedAt = this.#reads
      .filter(covers)
      .reduce<Instant | undefined>(
        (latest, { begunAt }) => (latest === undefined || begunAt > latest ? begunAt : latest),
        undefined,
      );
    // In none of the windows read here: whether it is late is unknown.
    if (missedAt === undefined && (this.#reach === undefined || version < this.#reach)) return;
    const missedSeconds = missedAt === undefined ? 0 : boundOf(secondsBetween(version, missedAt));
    const seenSeconds = boundOf(secondsBetween(version, requestedAt));
    const key = `${missedSeconds} ${seenSeconds}`;
    const changes = (this.#counts.get(key)?.changes ?? 0) + 1;
    this.#counts.set(key, { missedSeconds, seenSeconds, changes });
  }

  #age(now: Instant): void {
    const oldest = addSeconds(now, -ARRIVAL_AGE_MAX_SECONDS);
    if (oldest > this.#oldest) this.#oldest = oldest;
  }

  #forgetOld(): void {
    this.#forgotten = this.#oldest;
    this.#reads = this.#reads.filter(({ window }) => window.until > this.#oldest);
    for (const [key, version] of this.#shown) if (version < this.#oldest) this.#shown.delete(key);
  }

  #forgetHalf(): void {
    const versions = [...this.#shown.values()].toSorted((left, right) => (left < right ? -1 : 1));
    this.#oldest = (versions[Math.floor(versions.length / 2)] ?? this.#oldest) + 1n;
    this.#forgetOld();
  }
}

function secondsBetween(earlier: Instant, later: Instant): number {
  return Number(later - earlier) / Number(NANOS_PER_SECOND);
}
