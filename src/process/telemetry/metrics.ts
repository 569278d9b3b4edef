import type { Attributes, Meter, Observable } from "@opentelemetry/api";
import { PrometheusExporter, PrometheusSerializer } from "@opentelemetry/exporter-prometheus";
import { MeterProvider, type DataPoint, type MetricData } from "@opentelemetry/sdk-metrics";

const ACK_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2];
const LAG_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3_600];

/*
 * Every metric of the product with its help; their names are a contract with dashboards and alert rules. Watermarks are
 * times, not ages, so that they stay true when a process no longer moves them. No label contains an id of an order or
 * an event: `source`, `queue` and the `endpoint` of an outgoing webhook come from the configuration, all others from
 * fixed lists.
 */

/** @internal */
export const COUNTERS = {
  order_mirror_events_applied_total:
    "Decisions on observations of orders, by how they were seen and what was decided.",
  order_mirror_provider_requests_total:
    "Requests to the provider, by endpoint and status of the answer; none: there was no answer.",
  order_mirror_webhooks_received_total: "Requests to the webhook endpoint, by how they ended.",
} as const;

/** The buckets are upper bounds, in the unit of the histogram. @internal */
export const HISTOGRAMS = {
  order_mirror_webhook_ack_seconds: {
    help: "From the arrival of a whole webhook request to its answer.",
    buckets: ACK_BUCKETS,
  },
  order_mirror_apply_lag_seconds: {
    help: "From updatedAt, by the provider's clock, to the commit of the change here.",
    buckets: LAG_BUCKETS,
  },
} as const;

/** @internal */
export const OBSERVED_COUNTERS = {
  order_mirror_coverage_breaches_total: "Proofs withdrawn because a change was found that they had missed.",
  order_mirror_lost_events_total:
    "Changes that should have been announced by an event, and were found by a read only.",
} as const;

/** @internal */
export const OBSERVED_GAUGES = {
  order_mirror_build_info: "1, with the program's version.",
  order_mirror_process_resident_memory_bytes: "Resident memory of the process.",
  order_mirror_database_up: "1 when the figures below could be read from Postgres.",
  order_mirror_condition:
    "1 for each condition that has held for long enough to be notified of; absent otherwise. See docs/runbook.md.",
  order_mirror_poll_watermark_timestamp_seconds:
    "End of the last window that was polled whole, provider's time.",
  order_mirror_safe_through_timestamp_seconds: "Every change before it is in the mirror, provider's time.",
  order_mirror_poll_failing: "1 when the last poll failed.",
  order_mirror_poll_window_gaps:
    "Spans of the last week that are not proved to be complete, between others that are.",
  order_mirror_coverage_exceptions:
    "Orders that were seen and could not be read, and late events that no read has confirmed: safe through does not speak of them.",
  order_mirror_last_event_timestamp_seconds: "When an event last came.",
  order_mirror_pending_events: "Events without a decision.",
  order_mirror_pending_oldest_timestamp_seconds:
    "When the oldest event without a decision came; absent when none waits.",
  order_mirror_quarantined:
    "Input that could not be applied and waits for a person; counted up to 100,000 per source.",
  order_mirror_refetches_waiting: "Orders that wait for a single read.",
  order_mirror_queue_jobs:
    "Jobs of the queue, by state; failed: for good, and the overdue check applies their events.",
  order_mirror_outgoing_pending: "Undelivered outgoing webhooks.",
  order_mirror_outgoing_dead: "Outgoing webhooks that were given up and wait for a person.",
  order_mirror_outgoing_oldest_pending_timestamp_seconds:
    "Creation time of the oldest undelivered webhook; absent when there is none.",
} as const;

type CounterName = keyof typeof COUNTERS;
type HistogramName = keyof typeof HISTOGRAMS;
type ObservedName = keyof typeof OBSERVED_COUNTERS | keyof typeof OBSERVED_GAUGES;
type Labels = Readonly<Record<string, string>>;

/** Records one value of an observed metric, for this collection only. */
export type Observe = (name: ObservedName, value: number, labels?: Labels) => void;

export type Metrics = ReturnType<typeof makeMetrics>;

/** Makes the registry of a process. Nothing is sent anywhere: metrics are read on request. */
export function makeMetrics({ version }: { version: string }) {
  const reader = new PrometheusExporter({ preventServerStart: true });
  const serializer = new PrometheusSerializer(undefined, false, undefined, true, true);
  const meter = new MeterProvider({ readers: [reader] }).getMeter("order-mirror");
  const { counters, histograms, observables } = makeInstruments(meter);
  /** The series of observed metrics that the last collection has seen. */
  const observed = new Set<string>();
  let rendering: Promise<string> = Promise.resolve("");

  /** The SDK keeps showing a series that is no longer observed, with its last value: those are removed here. */
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

  const metrics = {
    count: (name: CounterName, labels: Labels, amount = 1) => counters.get(name)?.add(amount, labels),
    record: (name: HistogramName, value: number, labels: Labels = {}) =>
      histograms.get(name)?.record(value, labels as Attributes),
    /** `collect` runs at each collection; metrics that it does not observe are not shown. It must be fast. */
    observe(collect: (observe: Observe) => Promise<void> | void): void {
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
    /** Everything in Prometheus' text format. */
    render(): Promise<string> {
      // One at a time: observations of one collection must not be mistaken for those of another.
      rendering = rendering.catch(() => undefined).then(renderOnce);
      return rendering;
    },
  };
  metrics.observe((observe) => {
    observe("order_mirror_build_info", 1, { version });
    observe("order_mirror_process_resident_memory_bytes", process.memoryUsage.rss());
  });
  return metrics;
}

function nameSeries(name: string, labels: Attributes): string {
  return JSON.stringify([name, Object.entries(labels).toSorted(([one], [other]) => (one < other ? -1 : 1))]);
}

function makeInstruments(meter: Meter) {
  const counters = mapEntries(COUNTERS, (name, description) => meter.createCounter(name, { description }));
  const histograms = mapEntries(HISTOGRAMS, (name, { help: description, buckets }) =>
    meter.createHistogram(name, { description, advice: { explicitBucketBoundaries: [...buckets] } }),
  );
  const observables = new Map<string, Observable>([
    ...mapEntries(OBSERVED_COUNTERS, (name, description) =>
      meter.createObservableCounter(name, { description }),
    ),
    ...mapEntries(OBSERVED_GAUGES, (name, description) => meter.createObservableGauge(name, { description })),
  ]);
  return { counters, histograms, observables };
}

function mapEntries<Value, Mapped>(
  entries: Readonly<Record<string, Value>>,
  map: (name: string, value: Value) => Mapped,
): Map<string, Mapped> {
  return new Map(Object.entries(entries).map(([name, value]) => [name, map(name, value)]));
}
