import { context, propagation, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import type { Context } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { setGlobalErrorHandler, W3CTraceContextPropagator } from "@opentelemetry/core";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { detectResources, envDetector, resourceFromAttributes } from "@opentelemetry/resources";
import { BasicTracerProvider, BatchSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { systemClock } from "../lifecycle/clock.ts";
import { describeError } from "./errorFields.ts";
import type { Logger } from "./logger.ts";
import { makeLogSampler } from "./logSampler.ts";
import type { SpanOptions, TracePoint, Tracing } from "./tracing.ts";

const NAME = "order-mirror";
const CLOSE_DEADLINE_MS = 3_000;
const LOG_INTERVAL_MS = 60_000;
const KINDS = { server: SpanKind.SERVER, internal: SpanKind.INTERNAL };

/** Used only if tracing is on: startTracing does not load this file otherwise. */
export function makeTracing(deps: { service: string; version: string; logger: Logger }): Tracing {
  const { service, version, logger } = deps;
  const provider = new BasicTracerProvider({
    // The later one wins: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES over ours.
    resource: resourceFromAttributes({
      "service.name": NAME,
      "service.version": version,
      "service.instance.id": `${service}-${process.pid}`,
    }).merge(detectResources({ detectors: [envDetector] })),
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
  });
  trace.setGlobalTracerProvider(provider);
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  logExportErrors(logger);
  const tracer = provider.getTracer(NAME, version);

  return {
    inSpan(name, { kind = "internal", follows = [], attributes = {} }: SpanOptions, work) {
      const [first = context.active(), ...others] = follows as readonly Context[];
      const links = others.flatMap((each) => trace.getSpanContext(each) ?? []).map((at) => ({ context: at }));
      return tracer.startActiveSpan(name, { kind: KINDS[kind], links, attributes }, first, async (span) => {
        try {
          return await work((found) => span.setAttributes(found));
        } catch (error) {
          const { type, code } = describeError(error);
          span.setStatus({ code: SpanStatusCode.ERROR, message: [type, code].filter(Boolean).join(" ") });
          throw error;
        } finally {
          span.end();
        }
      });
    },
    here: (): TracePoint => context.active(),
    carry() {
      const headers: { traceparent?: string } = {};
      propagation.inject(context.active(), headers);
      return headers.traceparent;
    },
    carried: (traceparent): TracePoint => propagation.extract(ROOT_CONTEXT, { traceparent }),
    async close() {
      const late = new AbortController();
      const deadline = systemClock.sleep(CLOSE_DEADLINE_MS, late.signal).catch(() => undefined);
      await Promise.race([provider.shutdown().catch(() => undefined), deadline]);
      late.abort();
      for (const global of [trace, context, propagation]) global.disable();
    },
  };
}

/** An unavailable collector costs a line per minute, and nothing else: spans without room are dropped. */
function logExportErrors(logger: Logger): void {
  const sample = makeLogSampler({ clock: systemClock, intervalMs: LOG_INTERVAL_MS });
  setGlobalErrorHandler((error) => {
    const suppressed = sample("export");
    if (suppressed === undefined) return;
    const { type, code } = describeError(error);
    logger.warn({ type, code, suppressed }, "traces could not be sent to the collector");
  });
}
