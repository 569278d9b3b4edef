import type { Attributes, Counter, Histogram, Meter, Observable } from "@opentelemetry/api";
import { PrometheusExporter, PrometheusSerializer } from "@opentelemetry/exporter-prometheus";
import { MeterProvider } from "@opentelemetry/sdk-metrics";
import type { DataPoint, MetricData } from "@opentelemetry/sdk-metrics";

type Kind = "counter" | "histogram" | "observed-counter" | "observed-gauge";

interface Definition {
  readonly kind: Kind;
  readonly help: string;
  /** Upper bounds of a histogram's buckets, in its unit. */
  readonly buckets?: readonly number[];
}

const ACK_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2];
const JOB_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const LAG_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3_600];

/**
 * Every metric of the product; their names are a contract with dashboards and alert rules. Watermarks are moments
 * and not ages, so that they tell the truth when a process no longer moves them. No label holds an id of an order
 * or an event: `source`, `organization`, `queue` and `endpoint` come from the configuration, all others from fixed lists.
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
    help: "1 for each condition that has held for long enough to be told of; absent otherwise. See docs/runbook.md.",
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
    help: "Jobs that failed for good; their events are applied by the sweep.",
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
    help: "When changes were last removed before an endpoint was told of them; absent when none were within a week.",
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
type CounterName = NameOf<"counter">;
type HistogramName = NameOf<"histogram">;
type ObservedName = NameOf<"observed-counter" | "observed-gauge">;

type Labels = Readonly<Record<string, string>>;

/** Takes down one value of an observed metric, for this collection only. */
export type Observe = (name: ObservedName, value: number, labels?: Labels) => void;

/** The figures of this process, and what it reads when it is asked. */
export interface Metrics {
  /** Adds `amount`, 1 by default. */
  count(name: CounterName, labels: Labels, amount?: number): void;
  record(name: HistogramName, value: number, labels?: Labels): void;
  /** `collect` runs at each collection; what it does not observe then is not shown. It must not take long. */
  observe(collect: (observe: Observe) => Promise<void> | void): void;
  /** Everything in Prometheus' text format. */
  render(): Promise<string>;
}

/** Makes the registry of a process. Nothing is sent anywhere: whoever wants the figures asks for them. */
export function makeMetrics({ version }: { version: string }): Metrics {
  const reader = new PrometheusExporter({ preventServerStart: true });
  const serializer = new PrometheusSerializer(undefined, false, undefined, true, true);
  const meter = new MeterProvider({ readers: [reader] }).getMeter("order-mirror");
  const counters = new Map<string, Counter>();
  const histograms = new Map<string, Histogram>();
  const observables = new Map<string, Observable>();
  for (const [name, definition] of Object.entries(METRICS)) {
    makeInstrument(meter, name, definition, { counters, histograms, observables });
  }
  /** The series of observed metrics that the last collection has seen. */
  const observed = new Set<string>();
  let rendering: Promise<string> = Promise.resolve("");

  /** The SDK goes on to show a series that is not observed any more, with its last value: those are left out here. */
  async function renderOnce(): Promise<string> {
    observed.clear();
    const { resourceMetrics } = await reader.collect();
    const { resource, scopeMetrics } = resourceMetrics;
    const isShown = ({ name }: MetricData["descriptor"], labels: Attributes) =>
      !observables.has(name) || observed.has(nameSeries(name, labels));
    const shown = scopeMetrics.map(({ scope, metrics: all }) => {
      const kept = all.map((metric) => {
        const points = metric.dataPoints as readonly DataPoint<unknown>[];
        return {
          ...metric,
          dataPoints: points.filter(({ attributes }) => isShown(metric.descriptor, attributes)),
        } as MetricData;
      });
      return { scope, metrics: kept.filter(({ dataPoints }) => dataPoints.length > 0) };
    });
    return serializer.serialize({ resource, scopeMetrics: shown });
  }

  const metrics: Metrics = {
    count: (name, labels, amount = 1) => counters.get(name)?.add(amount, labels),
    record: (name, value, labels) => histograms.get(name)?.record(value, labels as Attributes),
    observe(collect) {
      meter.addBatchObservableCallback(
        (result) =>
          collect((name, value, labels = {}) => {
            const observable = observables.get(name);
            if (observable === undefined) return;
            observed.add(nameSeries(name, labels));
            result.observe(observable, value, labels as Attributes);
          }),
        [...observables.values()],
      );
    },
    render() {
      // One at a time: what one collection observes must not be taken for what another one does.
      rendering = rendering.catch(() => undefined).then(renderOnce);
      return rendering;
    },
  };
  const startedAt = Date.now() / 1_000 - process.uptime();
  metrics.observe((observe) => {
    observe("order_mirror_build_info", 1, { version });
    observe("order_mirror_process_start_timestamp_seconds", startedAt);
    observe("order_mirror_process_resident_memory_bytes", process.memoryUsage.rss());
  });
  return metrics;
}

function nameSeries(name: string, labels: Attributes): string {
  return JSON.stringify([name, Object.entries(labels).toSorted(([one], [other]) => (one < other ? -1 : 1))]);
}

function makeInstrument(
  meter: Meter,
  name: string,
  { kind, help, buckets }: Definition,
  into: {
    counters: Map<string, Counter>;
    histograms: Map<string, Histogram>;
    observables: Map<string, Observable>;
  },
): void {
  const description = help;
  switch (kind) {
    case "counter":
      into.counters.set(name, meter.createCounter(name, { description }));
      return;
    case "histogram": {
      const advice = { explicitBucketBoundaries: [...(buckets ?? [])] };
      into.histograms.set(name, meter.createHistogram(name, { description, advice }));
      return;
    }
    case "observed-counter":
      into.observables.set(name, meter.createObservableCounter(name, { description }));
      return;
    case "observed-gauge":
      into.observables.set(name, meter.createObservableGauge(name, { description }));
      return;
    default: {
      const never: never = kind;
      return never;
    }
  }
}
