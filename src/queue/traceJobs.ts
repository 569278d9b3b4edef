import type { Span, SpanKind, Telemetry } from "bullmq";
import { bullmq } from "./backends/packages.ts";

const NO_SPAN: Span = {
  setSpanOnContext: (context: unknown) => context,
  setAttribute: () => undefined,
  setAttributes: () => undefined,
  addEvent: () => undefined,
  recordException: () => undefined,
  end: () => undefined,
};

/**
 * Spans of BullMQ: a job's `add` and its `process`, in one trace across processes. Loaded only if tracing is on.
 *
 * BullMQ's internal operations get none: a worker that waits for jobs would send a trace every few seconds.
 */
export async function loadJobTracing(): Promise<Telemetry> {
  const { BullMQOtel } = await import("bullmq-otel");
  const { tracer, contextManager } = new BullMQOtel({ tracerName: "bullmq" });
  const startSpan: typeof tracer.startSpan = (name, options: { kind?: SpanKind } = {}, context) => {
    const carriesOn = options.kind === bullmq.SpanKind.PRODUCER || options.kind === bullmq.SpanKind.CONSUMER;
    return carriesOn ? tracer.startSpan(name, options, context) : NO_SPAN;
  };
  return { tracer: { startSpan }, contextManager };
}
