import type { Logger } from "./logger.ts";

/** A point in a trace, for work that follows from it elsewhere or later. */
export type TracePoint = object;

export interface SpanOptions {
  readonly kind?: "server" | "internal";
  /** What the work follows from: it continues the first one's trace, and names the others. */
  readonly follows?: readonly TracePoint[];
  /** Never an id of an order or an event, nor anything that a sender chose. */
  readonly attributes?: Readonly<Record<string, string | number>>;
}

/** Notes on the span what became known only during the work; where tracing is off, does nothing. */
type Note = (attributes: NonNullable<SpanOptions["attributes"]>) => void;
type Work<Result> = (note: Note) => Promise<Result>;

/** Spans of OpenTelemetry, for a collector. */
export interface Tracing {
  /** Runs the work within a span, which ends with it; of an error only its type and code are noted. */
  inSpan<Result>(name: string, options: SpanOptions, work: Work<Result>): Promise<Result>;
  /** Where this work stands in its trace. */
  here(): TracePoint;
  /** Where this work stands, for another process: the header `traceparent` of W3C Trace Context; undefined outside of spans. */
  carry(): string | undefined;
  /** The point that `carry` named; of any other text one that continues nothing. */
  carried(traceparent: string): TracePoint;
  /** Sends what waits to be sent, and ends; within 3 s. */
  close(): Promise<void>;
}

/**
 * Whether the standard variables ask for traces. They are OpenTelemetry's and not ours: its libraries read all of
 * them by themselves, from the environment alone, so a `.env` file is not looked at for them.
 * @internal
 */
export function isTracingWanted(env: NodeJS.Dict<string>): boolean {
  const read = (name: string) => (env[name] ?? "").trim();
  const endpoint = read("OTEL_EXPORTER_OTLP_ENDPOINT") || read("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
  const exporter = read("OTEL_TRACES_EXPORTER") || "otlp";
  return endpoint !== "" && exporter === "otlp" && read("OTEL_SDK_DISABLED").toLowerCase() !== "true";
}

/** Starts tracing, or does nothing: what is not wanted is not even loaded. One per process. */
export async function startTracing(
  env: NodeJS.Dict<string>,
  deps: { readonly service: string; readonly version: string; readonly logger: Logger },
): Promise<Tracing | undefined> {
  if (!isTracingWanted(env)) return undefined;
  const { makeTracing } = await import("./openTelemetry.ts");
  return makeTracing(deps);
}

/** Runs the work, within a span where tracing is on. */
export function inSpan<Result>(
  tracing: Tracing | undefined,
  name: string,
  options: SpanOptions,
  work: Work<Result>,
): Promise<Result> {
  return tracing === undefined ? work(() => undefined) : tracing.inSpan(name, options, work);
}
