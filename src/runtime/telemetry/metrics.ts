import type { Attributes, Meter, Observable } from "@opentelemetry/api";
import { PrometheusExporter, PrometheusSerializer } from "@opentelemetry/exporter-prometheus";
import { MeterProvider, type DataPoint, type MetricData } from "@opentelemetry/sdk-metrics";
import { COUNTERS, HISTOGRAMS, OBSERVED_COUNTERS, OBSERVED_GAUGES } from "./metricCatalogue.ts";

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
