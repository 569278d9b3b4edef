import { context, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import type { Attributes, Context, Span } from "@opentelemetry/api";
import { VERSION } from "../version.ts";
import { describeError } from "./errorFields.ts";

// Spans of OpenTelemetry's API. It does nothing until the process has an SDK, which its owner chooses and loads, as with
// `NODE_OPTIONS="--import @opentelemetry/auto-instrumentations-node/register"`.

const tracer = trace.getTracer("order-mirror", VERSION);

interface SpanOptions {
  /** Never an id of an order or an event, nor anything chosen by a sender. */
  readonly attributes?: Attributes;
  /** What caused the work: it continues the first trace, and links to the others. Default: the current one. */
  readonly follows?: readonly Context[];
}

/** Runs the work within a span, which ends with it; of an error only its type and code are recorded. */
export function inSpan<Result>(
  name: string,
  { attributes = {}, follows = [] }: SpanOptions,
  work: (span: Span) => Promise<Result>,
): Promise<Result> {
  const [first = context.active(), ...others] = follows;
  const links = others.flatMap((each) => trace.getSpanContext(each) ?? []).map((at) => ({ context: at }));
  return tracer.startActiveSpan(name, { links, attributes }, first, (span) => finish(span, work));
}

/** The same for a request: it begins a trace of its own. Otherwise callers would decide what is sampled. */
export function inRequestSpan<Result>(
  name: string,
  attributes: Attributes,
  work: (span: Span) => Promise<Result>,
): Promise<Result> {
  const options = { kind: SpanKind.SERVER, root: true, attributes };
  return tracer.startActiveSpan(name, options, (span) => finish(span, work));
}

async function finish<Result>(span: Span, work: (span: Span) => Promise<Result>): Promise<Result> {
  try {
    return await work(span);
  } catch (error) {
    const { type, code } = describeError(error);
    span.setStatus({ code: SpanStatusCode.ERROR, message: [type, code].filter(Boolean).join(" ") });
    throw error;
  } finally {
    span.end();
  }
}
