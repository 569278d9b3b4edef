import { sqlState } from "../database/databaseErrors.ts";
import type { Pool } from "../database/database.ts";
import { NANOS_PER_SECOND } from "../domain/order/instant.ts";
import { shareReading } from "../process/shareReading.ts";
import type { Clock } from "../process/clock.ts";
import { readRecorded } from "./alerts.sql.ts";
import { readOutgoingEndpoints } from "./conditions/endpoints.sql.ts";
import type { Facts } from "./conditions/conditions.ts";
import type { QueueFacts } from "./conditions/servers.ts";
import { judge, type FirstSeen, type Judgement } from "./judge.ts";
import { probeWrite } from "./readHealth.sql.ts";
import { readStandings, type Standing } from "./conditions/standing.ts";

export interface HealthDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  /**
   * The sources that this process lists. Another one may list more: see isInUse. Empty if the configuration is unknown,
   * as next to a demo; then every source of the database is judged.
   */
  readonly sources: readonly { readonly sourceId: string }[];
  readonly readQueues?: (() => Promise<readonly QueueFacts[]>) | undefined;
}

export interface Health extends Judgement {
  readonly facts: Facts;
}

export interface HealthReader {
  /** The latest result, at most HOLD_MS old; rejects with the database's error. */
  read(): Promise<Health>;
}

/** The database is queried at most this often, however many callers there are. */
const HOLD_MS = 4_000;
/** SQLSTATE disk_full. */
const DISK_FULL = "53100";

/** A single look, for commands: see judge. Rejects with the database's error. */
export async function readHealthOnce(deps: HealthDeps): Promise<Health> {
  const facts = await readFacts(deps);
  return { facts, ...judge(facts) };
}

/** Makes the one reader that all reports of a process use. */
export function makeHealthReader(deps: HealthDeps): HealthReader {
  const { clock } = deps;
  const firstSeen: FirstSeen = new Map();
  async function look(): Promise<Health> {
    const facts = await readFacts(deps);
    return { facts, ...judge(facts, firstSeen) };
  }

  return { read: shareReading(look, { clock, holdMs: HOLD_MS }) };
}

/** Reads the facts by one statement after another, so that a reading does not take all connections of a pool. */
async function readFacts(deps: HealthDeps): Promise<Facts> {
  const { pool, clock, readQueues } = deps;
  const standings = await readStandings(pool);
  const listed = new Set(deps.sources.map(({ sourceId }) => sourceId));
  return {
    now: standings[0]?.now ?? clock.now(),
    sources: standings.filter(
      (source) => listed.size === 0 || listed.has(source.sourceId) || isInUse(source),
    ),
    endpoints: await readOutgoingEndpoints(pool),
    recorded: await readRecorded(pool),
    unwritable: await explainUnwritable(pool),
    queues: (await readQueues?.()) ?? null,
  };
}

/** A source that had no poller for so long was taken out of use. */
const IN_USE_NANOS = 86_400n * NANOS_PER_SECOND;

/**
 * Whether a source is in use although this process does not list it: web lists only those with a webhook secret, and
 * each process may take its turn at the alerts. Where they judged different sources, an alert would begin and end with
 * the turns, and nobody but its poller would see that the poller of a source without webhooks is dead.
 */
function isInUse({ leaderlessSince, now }: Standing): boolean {
  return leaderlessSince === null || now - leaderlessSince < IN_USE_NANOS;
}

async function explainUnwritable(pool: Pool): Promise<Facts["unwritable"]> {
  try {
    const { readOnly } = await probeWrite(pool);
    if (!readOnly) return null;
    const cause = "Postgres is read-only: it is a standby, or was configured so.";
    return { cause, remedy: "Point DATABASE_URL at the primary, or let the server write." };
  } catch (error) {
    const state = sqlState(error);
    if (state === DISK_FULL)
      return {
        cause: "The disk of Postgres is full.",
        remedy: "Free space on it. The mirror then continues by itself.",
      };
    return {
      cause: `Postgres does not commit${state === undefined ? "" : ` (SQLSTATE ${state})`}.`,
      remedy: "The log of Postgres gives the reason, such as an absent synchronous standby.",
    };
  }
}
