import type { Pool } from "../../database/database.ts";
import { readArrivals, type Arrivals } from "./arrivals.sql.ts";
import { readBacklogs, type Backlog } from "./backlog.sql.ts";
import { readCompleteness, type Completeness } from "./completeness.sql.ts";
import { readPolling, type Polling } from "./polling.sql.ts";
import { readWebhookCalls, type WebhookCalls } from "./webhookCalls.sql.ts";

/**
 * The state of a source. Status, metrics, ops page, doctor, alerts and readiness are all based on it. Each part has its
 * statement and its conditions in one file. `safeThrough`, `polledThrough`, `historySince`, `provedUntil` and gaps are
 * in the provider's time; all other times are the database's.
 */
export type Standing = Polling & Completeness & Backlog & Arrivals & WebhookCalls;

/** Reads the state of every source that was ever configured, by name, or only of the named one. */
export async function readStandings(pool: Pool, sourceId: string | null = null): Promise<Standing[]> {
  const polling = await readPolling(pool, sourceId);
  const completeness = bySource(await readCompleteness(pool, sourceId));
  const backlogs = bySource(await readBacklogs(pool, sourceId));
  const arrived = await readArrivals(pool, sourceId);
  const [arrivals, calls] = [bySource(arrived), bySource(await readWebhookCalls(pool, arrived))];
  return polling.flatMap((source) => {
    const parts = [completeness, backlogs, arrivals, calls].map((each) => each.get(source.sourceId));
    // A source that was configured between two of the statements is read completely the next time.
    return parts.includes(undefined) ? [] : [Object.assign({}, source, ...parts) as Standing];
  });
}

function bySource<Part extends { readonly sourceId: string }>(parts: readonly Part[]): Map<string, Part> {
  return new Map(parts.map((part) => [part.sourceId, part]));
}
