import type { Mode } from "../../domain/source/orderSource.ts";
import type { Instant } from "../../domain/order/instant.ts";

/** One request and its answer; `status` 0: the connection was closed on purpose. */
export interface JournalEntry {
  readonly requestNumber: number;
  readonly at: Instant;
  readonly organizationId: string | null;
  readonly mode: Mode | null;
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly endpoint: string;
  readonly status: number;
  readonly code: string | null;
  readonly requestId: string;
  readonly durationMs: number;
  readonly faults: readonly string[];
}

const ENTRIES_MAX = 2_000;

export type Journal = ReturnType<typeof makeJournal>;

/** The received requests, for tests and people: the newest entries, and counts of all. */
export function makeJournal() {
  let number = 0;
  let entries: JournalEntry[] = [];
  let counts: Record<string, number> = {};
  return {
    next: () => {
      number += 1;
      return number;
    },
    record: (entry: JournalEntry) => {
      entries.push(entry);
      // Trimmed in batches: trimming at every entry would move the whole list each time.
      if (entries.length > 2 * ENTRIES_MAX) entries = entries.slice(-ENTRIES_MAX);
      const name = `${entry.endpoint} ${entry.status}`;
      counts[name] = (counts[name] ?? 0) + 1;
    },
    /** The newest first. */
    entries: () => entries.slice(-ENTRIES_MAX).reverse(),
    /** How many requests per endpoint and status since the last clear: `listOrders 200`. */
    counts: () => ({ ...counts }),
    clear: () => {
      number = 0;
      entries = [];
      counts = {};
    },
  };
}
