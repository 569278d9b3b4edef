import { addSeconds, NANOS_PER_SECOND } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { ARRIVAL_AGE_MAX_SECONDS, boundOf } from "../../domain/window/lateness.ts";
import type { ArrivalCount } from "../../domain/window/lateness.ts";
import type { Window } from "../../domain/window/window.ts";
import type { ShownPage } from "../cycle/readWindow.ts";

/** A window that was read whole, and when that began. */
interface WholeRead {
  readonly window: Window;
  readonly begunAt: Instant;
}

/** Some ten megabytes; with more changes than that in twenty minutes the log begins anew. */
const SHOWN_MAX = 100_000;

/**
 * Tells how late changes appear in the provider's list, whoever learned of them first: a change that is shown for
 * the first time in a window which was read whole before was not there then.
 */
export class ArrivalLog {
  readonly #shown = new Map<string, Instant>();
  #reads: WholeRead[] = [];
  #counts = new Map<string, ArrivalCount>();
  /** End of all windows read. */
  #reach: Instant | undefined;
  #lastShownAt: Instant = 0n;
  /** Of reads that began before it, this log may not know all pages. */
  #begunAt: Instant = 0n;

  showPage({ requestedAt, rows }: Pick<ShownPage, "requestedAt" | "rows">): void {
    const oldest = addSeconds(requestedAt, -ARRIVAL_AGE_MAX_SECONDS);
    for (const { reference, version } of rows) {
      if (reference === undefined || version === undefined || version < oldest) continue;
      const key = `${reference} ${version}`;
      if (this.#shown.has(key)) continue;
      this.#shown.set(key, version);
      this.#count(version, requestedAt);
    }
    if (requestedAt > this.#lastShownAt) this.#lastShownAt = requestedAt;
  }

  /** `read` was read whole, and all its pages were shown here. */
  noteRead(read: WholeRead): void {
    if (this.#shown.size > SHOWN_MAX) this.#startAnew();
    if (read.begunAt <= this.#begunAt) return;
    const oldest = addSeconds(read.begunAt, -ARRIVAL_AGE_MAX_SECONDS);
    this.#reads = [...this.#reads.filter(({ window }) => window.until > oldest), read];
    if (this.#reach === undefined || read.window.until > this.#reach) this.#reach = read.window.until;
    for (const [key, version] of this.#shown) if (version < oldest) this.#shown.delete(key);
  }

  /** What was counted since the last call. */
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
    // Older than what was read here: nobody can tell whether it is late.
    if (missedAt === undefined && (this.#reach === undefined || version < this.#reach)) return;
    const missedSeconds = missedAt === undefined ? 0 : boundOf(secondsBetween(version, missedAt));
    const seenSeconds = boundOf(secondsBetween(version, requestedAt));
    const key = `${missedSeconds} ${seenSeconds}`;
    const changes = (this.#counts.get(key)?.changes ?? 0) + 1;
    this.#counts.set(key, { missedSeconds, seenSeconds, changes });
  }

  #startAnew(): void {
    this.#shown.clear();
    this.#reads = [];
    this.#reach = undefined;
    this.#begunAt = this.#lastShownAt;
  }
}

function secondsBetween(earlier: Instant, later: Instant): number {
  return Number(later - earlier) / Number(NANOS_PER_SECOND);
}
