import { context, SpanStatusCode, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { inRequestSpan, inSpan } from "../../../src/runtime/telemetry/tracing.ts";

const exporter = new InMemorySpanExporter();

beforeAll(() => {
  trace.setGlobalTracerProvider(
    new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }),
  );
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
});
beforeEach(() => exporter.reset());
afterAll(() => {
  trace.disable();
  context.disable();
});

const spans = () => exporter.getFinishedSpans();

it("records only type and code of an error, and passes it on", async () => {
  const error = Object.assign(new TypeError("call Ada on +44 20"), { code: "E_CALL" });
  await expect(inSpan("work", {}, () => Promise.reject(error))).rejects.toBe(error);
  expect(spans()[0]?.status).toEqual({ code: SpanStatusCode.ERROR, message: "TypeError E_CALL" });
  expect(spans()[0]?.events).toEqual([]);
});

it("continues what caused the work first, links to the others, and begins a trace for each request", async () => {
  const callers = [await inRequestSpan("receive", {}, here), await inRequestSpan("receive", {}, here)];
  await inSpan("enqueue", { follows: callers }, () => inRequestSpan("receive", {}, here));
  const [one, two, inner, enqueue] = spans();
  expect(enqueue?.parentSpanContext?.spanId).toBe(one?.spanContext().spanId);
  expect(enqueue?.links.map(({ context: at }) => at.spanId)).toEqual([two?.spanContext().spanId]);
  expect(inner?.parentSpanContext).toBeUndefined();
});

const here = () => Promise.resolve(context.active());
