export type Kind = "counter" | "histogram" | "observed-counter" | "observed-gauge";

export interface Definition {
  readonly kind: Kind;
  readonly help: string;
  /** Upper bounds of a histogram's buckets, in its unit. */
  readonly buckets?: readonly number[];
}

const ACK_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2];
const JOB_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const LAG_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3_600];

/**
 * Every metric of the product; their names are a contract with dashboards and alert rules. Watermarks are times, not
 * ages, so that they stay true when a process no longer moves them. No label contains an id of an order or an event:
 * `source`, `organization`, `queue` and `endpoint` come from the configuration, all others from fixed lists.
 */
export const METRICS = {
  order_mirror_build_info: { kind: "observed-gauge", help: "1, with the program's version." },
  order_mirror_process_start_timestamp_seconds: {
    kind: "observed-gauge",
    help: "When the process started.",
  },
  order_mirror_process_resident_memory_bytes: {
    kind: "observed-gauge",
    help: "Resident memory of the process.",
  },
  order_mirror_webhooks_received_total: {
    kind: "observed-counter",
    help: "Requests to the webhook endpoint, by how they ended.",
  },
  order_mirror_webhook_refusals_total: {
    kind: "observed-counter",
    help: "Webhook requests that did not verify, by what was wrong with their signature.",
  },
  order_mirror_webhook_ack_seconds: {
    kind: "histogram",
    help: "From the arrival of a webhook request to its answer.",
    buckets: ACK_BUCKETS,
  },
  order_mirror_events_applied_total: {
    kind: "counter",
    help: "Decisions on observations of orders, by how they were seen and what was decided.",
  },
  order_mirror_apply_lag_seconds: {
    kind: "histogram",
    help: "From updatedAt, by the provider's clock, to the commit of the change here.",
    buckets: LAG_BUCKETS,
  },
  order_mirror_database_up: {
    kind: "observed-gauge",
    help: "1 when the figures below could be read from Postgres.",
  },
  order_mirror_condition: {
    kind: "observed-gauge",
    help: "1 for each condition that has held for long enough to be notified of; absent otherwise. See docs/runbook.md.",
  },
  order_mirror_poll_watermark_timestamp_seconds: {
    kind: "observed-gauge",
    help: "End of the last window that was polled whole, provider's time.",
  },
  order_mirror_safe_through_timestamp_seconds: {
    kind: "observed-gauge",
    help: "Every change before it is in the mirror, provider's time.",
  },
  order_mirror_poll_last_cycle_timestamp_seconds: {
    kind: "observed-gauge",
    help: "When the last poll ended.",
  },
  order_mirror_feed_behind_seconds: {
    kind: "observed-gauge",
    help: "Age of the oldest transaction that is writing changes: readers of the feed wait for it.",
  },
  order_mirror_poll_failing: { kind: "observed-gauge", help: "1 when the last poll failed." },
  order_mirror_poll_window_gaps: {
    kind: "observed-gauge",
    help: "Spans of the last week that are not proved to be complete, between others that are.",
  },
  order_mirror_coverage_breaches_total: {
    kind: "observed-counter",
    help: "Proofs that were taken back, since a change was found that they had missed.",
  },
  order_mirror_coverage_exceptions: {
    kind: "observed-gauge",
    help: "Orders that were seen and could not be read, and late events that no read has confirmed: safe through does not speak of them.",
  },
  order_mirror_lost_events_total: {
    kind: "observed-counter",
    help: "Changes that should have been announced by an event, and were found by a read only.",
  },
  order_mirror_announced_changes_total: {
    kind: "observed-counter",
    help: "Changes that an event announced, in time or late.",
  },
  order_mirror_last_event_timestamp_seconds: {
    kind: "observed-gauge",
    help: "When an event last came.",
  },
  order_mirror_pending_events: {
    kind: "observed-gauge",
    help: "Events without a decision.",
  },
  order_mirror_pending_oldest_timestamp_seconds: {
    kind: "observed-gauge",
    help: "When the oldest event without a decision came; absent when none waits.",
  },
  order_mirror_quarantined: {
    kind: "observed-gauge",
    help: "Input that could not be applied and waits for a person; counted up to 100,000 per source.",
  },
  order_mirror_refetches_waiting: {
    kind: "observed-gauge",
    help: "Orders that are to be read again one by one.",
  },
  order_mirror_provider_changed_timestamp_seconds: {
    kind: "observed-gauge",
    help: "When the provider was last found to answer otherwise than before; absent when it never was.",
  },
  order_mirror_poll_overlap_seconds: {
    kind: "observed-gauge",
    help: "How far each poll reaches back, as tuned.",
  },
  order_mirror_late_arrival_seconds: {
    kind: "observed-gauge",
    help: "Age of the latest change of the last week that a poll had missed at first.",
  },
  order_mirror_queue_jobs: { kind: "observed-gauge", help: "Jobs of the queue, by state." },
  order_mirror_dead_jobs: {
    kind: "observed-gauge",
    help: "Jobs that failed for good; their events are applied by the overdue check.",
  },
  order_mirror_outgoing_pending: {
    kind: "observed-gauge",
    help: "Outgoing webhooks that are still to be delivered.",
  },
  order_mirror_outgoing_dead: {
    kind: "observed-gauge",
    help: "Outgoing webhooks that were given up and wait for a person.",
  },
  order_mirror_outgoing_oldest_pending_timestamp_seconds: {
    kind: "observed-gauge",
    help: "When the oldest outgoing webhook was made that is still to be delivered; absent when none is.",
  },
  order_mirror_outgoing_missed_timestamp_seconds: {
    kind: "observed-gauge",
    help: "When changes were last removed before an endpoint was notified of them; absent when none were within a week.",
  },
  order_mirror_job_duration_seconds: {
    kind: "histogram",
    help: "How long a job of the queue was worked on.",
    buckets: JOB_BUCKETS,
  },
  order_mirror_hints_total: {
    kind: "counter",
    help: "Hints at new events that this worker took up; a failed one is left to its job.",
  },
  order_mirror_provider_requests_total: {
    kind: "counter",
    help: "Requests to the provider, by endpoint and status of the answer; none: there was no answer.",
  },
  order_mirror_provider_spent_total: {
    kind: "observed-counter",
    help: "Requests sent to the provider, by rate policy and purpose.",
  },
  order_mirror_provider_ratelimit_limit: {
    kind: "observed-gauge",
    help: "Requests that we allow ourselves within a policy's window.",
  },
  order_mirror_provider_ratelimit_remaining: {
    kind: "observed-gauge",
    help: "Of those, how many may still be sent now.",
  },
  order_mirror_provider_ratelimit_reset_timestamp_seconds: {
    kind: "observed-gauge",
    help: "When a policy's window ends, as the provider said last; absent once it has ended.",
  },
} as const satisfies Record<string, Definition>;

type MetricName = keyof typeof METRICS;
type NameOf<Wanted extends Kind> = {
  [Name in MetricName]: (typeof METRICS)[Name]["kind"] extends Wanted ? Name : never;
}[MetricName];
export type CounterName = NameOf<"counter">;
export type HistogramName = NameOf<"histogram">;
export type ObservedName = NameOf<"observed-counter" | "observed-gauge">;
