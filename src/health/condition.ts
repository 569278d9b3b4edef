import type { Instant } from "../domain/order/instant.ts";
import type { OutgoingEndpoint } from "./endpoints.sql.ts";
import type { FeedWriter } from "./feedWriter.sql.ts";
import { COUNT_MAX } from "./standing.sql.ts";
import type { Standing } from "./standing.sql.ts";

/** A source with what the configuration says of it. */
export interface SourceFacts extends Standing {
  /** It has webhook secrets; where the configuration is not known, an event came some time. */
  readonly configured: boolean;
}

export interface QueueFacts {
  readonly name: string;
  /** What is wrong with its server, in sentences with their remedies. */
  readonly problems: readonly { readonly problem: string; readonly fix: string }[];
  /** When a job last failed for good; null when none is kept. */
  readonly newestDeadAt: Instant | null;
}

export interface ReplicaFacts {
  /** When the last poll ended that the replica knows of; undefined when it does not answer, null when it knows of none. */
  readonly lastCycleEndedAt: Instant | null | undefined;
}

/** Everything that conditions are judged by. Moments are the database's time where nothing else is said. */
export interface Facts {
  readonly now: Instant;
  readonly sources: readonly SourceFacts[];
  readonly endpoints: readonly OutgoingEndpoint[];
  /** What the change feed waits for; null when nobody is writing. */
  readonly feedWriter: FeedWriter | null;
  /** Why Postgres cannot commit, in a sentence; null when it can. */
  readonly unwritable: string | null;
  /** Null where this process does not know the queues. */
  readonly queues: readonly QueueFacts[] | null;
  /** Null where this process knows of no replica. */
  readonly replica: ReplicaFacts | null;
}

/** One occurrence of a condition. */
export interface Finding {
  /** Name of the source, endpoint or queue; empty for what there is one of. */
  readonly subject: string;
  /** Since when; null when that cannot be read: it counts from the first look. */
  readonly since: Instant | null;
  /** What is wrong, in a sentence. */
  readonly cause: string;
  /** What to do, where that can be said more exactly than for the condition as such. */
  readonly remedy?: string;
}

/** Parts of the product by which people look; doctor has a check for each. */
export type Area =
  "database" | "queue" | "provider" | "events" | "worker" | "poller" | "coverage" | "quarantine" | "outgoing";

/**
 * A state of the mirror that people should know of. Page, `status`, `doctor`, readiness, alerts and metrics judge by the
 * one list of these, and Prometheus' rules are made of it.
 */
export interface Condition {
  /** Also the name of the alert and of its section in docs/runbook.md. */
  readonly name: `OrderMirror${string}`;
  readonly severity: "critical" | "warning";
  readonly area: Area;
  /** The metric label that names its subject; null where there is only one. */
  readonly label: "source" | "endpoint" | "queue" | null;
  /** What it measures, in a clause that follows its subject: "live: no poller leads". */
  readonly measures: string;
  /** How long it must hold before it is shown and anybody is notified. */
  readonly forSeconds: number;
  readonly remedy: string;
  /** The ops page with more about it. */
  readonly page: string;
  /** Where it holds; undefined when the facts it needs are not known here. */
  readonly find: (facts: Facts) => readonly Finding[] | undefined;
}

/** A condition that looks at each source by itself. */
export function perSource(
  condition: Omit<Condition, "find" | "label"> & {
    readonly judge: (source: SourceFacts) => Omit<Finding, "subject"> | undefined;
  },
): Condition {
  const { judge, ...rest } = condition;
  return {
    ...rest,
    label: "source",
    find: ({ sources }) =>
      sources.flatMap((source) => {
        const found = judge(source);
        return found === undefined ? [] : [{ subject: source.sourceId, ...found }];
      }),
  };
}

/** "12 events", "1 event", "more than 100,000 events". */
export function describeCount(number: number, noun: string): string {
  const digits = Math.min(number, COUNT_MAX).toLocaleString("en-US");
  return `${number > COUNT_MAX ? "more than " : ""}${digits} ${noun}${number === 1 ? "" : "s"}`;
}
