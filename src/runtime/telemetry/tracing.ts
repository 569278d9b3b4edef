import type { Logger } from "./logger.ts";

/** A point in a trace, for work that follows from it elsewhere or later. */
export type TracePoint = object;

export interface SpanOptions {
  readonly kind?: "server" | "internal";
  /** What caused the work: it continues the first trace, and links to the others. */
  readonly follows?: readonly TracePoint[];
  /** Never an id of an order or an event, nor anything chosen by a sender. */
  readonly attributes?: Readonly<Record<string, string | number>>;
}

/** Adds attributes to the span that become known only during the work; without tracing, does nothing. */
type Note = (attributes: NonNullable<SpanOptions["attributes"]>) => void;
type Work<Result> = (note: Note) => Promise<Result>;

/** Spans of OpenTelemetry, for a collector. */
export interface Tracing {
  /** Runs the work within a span, which ends with it; of an error only its type and code are recorded. */
  inSpan<Result>(name: string, options: SpanOptions, work: Work<Result>): Promise<Result>;
  here(): TracePoint;
  /** This position for another process, as the header `traceparent`; undefined outside of spans. */
  carry(): string | undefined;
  /** The point from `carry`; any other text gives one that continues nothing. */
  carried(traceparent: string): TracePoint;
  /** Sends pending spans, and ends; within 3 s. */
  close(): Promise<void>;
}

/**
 * Whether the standard variables request traces. They are OpenTelemetry's, not ours: its libraries read all of them
 * from the environment alone, so a `.env` file is ignored. @internal
 */
export function isTracingWanted(env: NodeJS.Dict<string>): boolean {
  const read = (name: string) => (env[name] ?? "").trim();
  const endpoint = read("OTEL_EXPORTER_OTLP_ENDPOINT") || read("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
  const exporter = read("OTEL_TRACES_EXPORTER") || "otlp";
  return endpoint !== "" && exporter === "otlp" && read("OTEL_SDK_DISABLED").toLowerCase() !== "true";
}

/** Starts tracing, or does nothing: without it, nothing is loaded. One per process. */
export async function startTracing(
  env: NodeJS.Dict<string>,
  deps: { readonly service: string; readonly version: string; readonly logger: Logger },
): Promise<Tracing | undefined> {
  if (!isTracingWanted(env)) return undefined;
  const { makeTracing } = await import("./openTelemetry.ts");
  return makeTracing(deps);
}

/** Runs the work, within a span if tracing is on. */
export function inSpan<Result>(
  tracing: Tracing | undefined,
  name: string,
  options: SpanOptions,
  work: Work<Result>,
): Promise<Result> {
  return tracing === undefined ? work(() => undefined) : tracing.inSpan(name, options, work);
}
