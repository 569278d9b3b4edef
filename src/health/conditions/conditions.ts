import type { Instant } from "../../domain/order/instant.ts";
import { ARRIVAL_CONDITIONS } from "./arrivals.sql.ts";
import { BACKLOG_CONDITIONS } from "./backlog.sql.ts";
import { COMPLETENESS_CONDITIONS } from "./completeness.sql.ts";
import { judgeEach, type Judged, type Rule } from "./condition.ts";
import { ENDPOINT_CONDITIONS, type OutgoingEndpoint } from "./endpoints.sql.ts";
import { POLLING_CONDITIONS } from "./polling.sql.ts";
import { DATABASE_CONDITIONS, QUEUE_CONDITIONS, type QueueFacts, type Unwritable } from "./servers.ts";
import type { Standing } from "./standing.ts";
import { WEBHOOK_CONDITIONS } from "./webhookCalls.sql.ts";

/** An occurrence of a condition, as recorded by the process that watches. */
export interface RecordedCondition {
  readonly name: string;
  readonly subject: string;
  readonly since: Instant;
  /** Null while it holds. */
  readonly endedAt: Instant | null;
}

/** The inputs of all conditions. Times are the database's unless stated otherwise. */
export interface Facts {
  /** The database's clock. */
  readonly now: Instant;
  /** Null: Postgres can commit. */
  readonly unwritable: Unwritable | null;
  /** Null: this process does not know the queues. */
  readonly queues: readonly QueueFacts[] | null;
  readonly sources: readonly Standing[];
  readonly endpoints: readonly OutgoingEndpoint[];
  /** Conditions as processes have recorded them: those that hold, and those that ended within a day, the last first. */
  readonly recorded: readonly RecordedCondition[];
}

const OF_SOURCES: readonly Rule<Standing>[] = [
  ...POLLING_CONDITIONS,
  ...COMPLETENESS_CONDITIONS,
  ...BACKLOG_CONDITIONS,
  ...WEBHOOK_CONDITIONS,
  ...ARRIVAL_CONDITIONS,
];

/**
 * Every condition that the product evaluates, in the order of docs/runbook.md. Each stands beside the statement that
 * reads its facts, so that a new one touches one file.
 */
export const CONDITIONS: readonly Judged<Facts>[] = [
  ...judgeEach(DATABASE_CONDITIONS, null, ({ unwritable }: Facts) =>
    unwritable === null ? [] : [["", unwritable]],
  ),
  ...judgeEach(QUEUE_CONDITIONS, "queue", ({ queues, now }: Facts) =>
    queues?.map((queue) => [queue.name, { ...queue, now }]),
  ),
  ...judgeEach(ENDPOINT_CONDITIONS, "endpoint", ({ endpoints }: Facts) =>
    endpoints.map((endpoint) => [endpoint.endpointId, endpoint]),
  ),
  ...judgeEach(OF_SOURCES, "source", ({ sources }: Facts) =>
    sources.map((source) => [source.sourceId, source]),
  ),
];
