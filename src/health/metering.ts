import type { Decision } from "../apply/applySubjects.ts";
import { NANOS_PER_SECOND, type Instant } from "../domain/order/instant.ts";
import type { OutgoingEndpoint } from "./conditions/endpoints.sql.ts";
import type { Health, HealthReader } from "./health.ts";
import type { Standing } from "./conditions/standing.ts";
import type { Answered } from "../provider/transport.ts";
import type { CallEnd } from "../receive/receiver.ts";
import type { Clock } from "../process/clock.ts";
import type { Metrics, Observe } from "../process/telemetry/metrics.ts";
import type { SignatureRefusal } from "../signature/verifier.ts";
import type { CountCall, WebhookOutcome } from "./calls.sql.ts";

/** Outcome of a call for whether webhooks work, by how it ended or by what was wrong with its signature. */
const OUTCOMES: Readonly<Partial<Record<CallEnd["outcome"] | SignatureRefusal, WebhookOutcome>>> = {
  received: "accepted",
  duplicate: "accepted",
  failed: "not_stored",
  body_already_read: "not_stored",
  overloaded: "not_stored",
  unavailable: "not_stored",
  // Only calls of configured sources are counted by source: this one has no secret.
  not_found: "no_secret",
  timestamp_outside_tolerance: "wrong_time",
  signature_missing: "unsigned",
};

/** Counts the calls of the webhook addresses, and measures them. */
export function meterWebhooks(metrics: Metrics, count: CountCall): (end: CallEnd) => void {
  return ({ sourceId, outcome, reason, durationMs }) => {
    metrics.count("order_mirror_webhooks_received_total", { outcome });
    if (outcome !== "aborted") metrics.record("order_mirror_webhook_ack_seconds", durationMs / 1_000);
    const named = reason ? (OUTCOMES[reason] ?? "wrong_signature") : (OUTCOMES[outcome] ?? "other");
    if (sourceId !== null) count({ sourceId, kind: "webhook", outcome: named });
  };
}

/** Counts decisions before they are forwarded. */
export function meterDecisions(
  metrics: Metrics,
  clock: Clock,
  next?: (decisions: readonly Decision[]) => void,
): (decisions: readonly Decision[]) => void {
  return (decisions) => {
    const now = clock.now();
    for (const { sourceId: source, via, verdict, version } of decisions) {
      metrics.count("order_mirror_events_applied_total", { source, via, verdict });
      if (verdict !== "applied" || version === null) continue;
      // The provider's clock may be ahead; and what a backfill brings is old by nature.
      const lag = Math.max(0, Number(now - version) / Number(NANOS_PER_SECOND));
      if (via !== "backfill") metrics.record("order_mirror_apply_lag_seconds", lag, { source, via });
    }
    next?.(decisions);
  };
}

/** Shows the state of each source and the conditions that hold, if the database can be read. */
export function meterHealth(metrics: Metrics, health: HealthReader): void {
  metrics.observe(async (observe) => {
    let read: Health;
    try {
      read = await health.read();
    } catch {
      // Old values are not shown: a stale watermark would look fresh.
      observe("order_mirror_database_up", 0);
      return;
    }
    observe("order_mirror_database_up", 1);
    for (const standing of read.facts.sources) observeSource(observe, standing);
    for (const endpoint of read.facts.endpoints) observeEndpoint(observe, endpoint);
    for (const { name: queue, jobs = {} } of read.facts.queues ?? [])
      for (const [state, count] of Object.entries(jobs))
        observe("order_mirror_queue_jobs", count, { queue, state });
    for (const { condition, subject } of read.holding) {
      const { name, severity, label } = condition;
      const labels = label === null ? {} : { [label]: subject };
      observe("order_mirror_condition", 1, { condition: name, severity, ...labels });
    }
  });
}

function observeSource(observe: Observe, standing: Standing): void {
  const labels = { source: standing.sourceId };
  const observeKnown = (name: Parameters<Observe>[0], value: number | null) => {
    if (value !== null) observe(name, value, labels);
  };
  const observeMoment = (name: Parameters<Observe>[0], at: Instant | null) =>
    observeKnown(name, at === null ? null : Number(at) / Number(NANOS_PER_SECOND));
  observeMoment("order_mirror_poll_watermark_timestamp_seconds", standing.polledThrough);
  observeMoment("order_mirror_safe_through_timestamp_seconds", standing.safeThrough);
  observeMoment("order_mirror_last_event_timestamp_seconds", standing.lastEventAt);
  observeMoment("order_mirror_pending_oldest_timestamp_seconds", standing.oldestPendingAt);
  observe("order_mirror_poll_failing", standing.lastError === null ? 0 : 1, labels);
  observe("order_mirror_poll_window_gaps", standing.gaps, labels);
  observe("order_mirror_coverage_breaches_total", standing.breaches, labels);
  observe("order_mirror_coverage_exceptions", standing.exceptions, labels);
  observe("order_mirror_lost_events_total", standing.lostEver, labels);
  observe("order_mirror_pending_events", standing.pending, labels);
  observe("order_mirror_quarantined", standing.quarantined, labels);
  observe("order_mirror_refetches_waiting", standing.refetches, labels);
}

function observeEndpoint(observe: Observe, endpoint: OutgoingEndpoint): void {
  const { pending, dead, oldestPendingAt } = endpoint;
  const labels = { endpoint: endpoint.endpointId };
  observe("order_mirror_outgoing_pending", pending, labels);
  observe("order_mirror_outgoing_dead", dead, labels);
  if (oldestPendingAt !== null)
    observe("order_mirror_outgoing_oldest_pending_timestamp_seconds", oldestPendingAt, labels);
}

const TOO_MANY_REQUESTS = 429;

/** Counts the requests to the provider of a source, to be notified of each answer. */
export function meterAnswers(metrics: Metrics, count: CountCall) {
  return (sourceId: string) =>
    ({ endpoint, policy: kind, status }: Answered): void => {
      const code = status === null ? "none" : String(status);
      metrics.count("order_mirror_provider_requests_total", { endpoint, code });
      const refused = status === TOO_MANY_REQUESTS ? "refused" : "answered";
      count({ sourceId, kind, outcome: status === null ? "unanswered" : refused });
    };
}
