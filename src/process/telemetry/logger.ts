import { createRequire } from "node:module";
import { isatty } from "node:tty";
import { pino } from "pino";
import type * as PinoPretty from "pino-pretty";
import { describeError, describeMessage } from "./errorFields.ts";
import { escapeControls } from "./escapeControls.ts";
import { VERSION } from "../version.ts";

export type Logger = pino.Logger;

export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;

export type LogLevel = (typeof LOG_LEVELS)[number];

export type LogFormat = "json" | "pretty";

export interface LoggerOptions {
  readonly level: LogLevel;
  readonly format: LogFormat;
  readonly service: string;
  /** Default stderr, as results go to stdout. A stream is for tests. */
  readonly destination?: LogStream | undefined;
}

interface LogStream {
  write(line: string): void;
}

const STDERR = 2;
const TEXT_LENGTH_MAX = 1_000;
const LIST_LENGTH_MAX = 100;
const UNWRITTEN_BYTES_MAX = 1_048_576;
const OMITTED = "[omitted]";

/** Names whose values are never logged; a second line of defence, because nobody should log them. */
const SECRET_NAME =
  /(?:^|_)(?:secrets?|passwords?|authorization|api_keys?|tokens?|signatures?|phone|email|first_name|last_name|customer|address|street|city|postcode|body|raw|payload|headers)(?:_|$)/;

/**
 * A pino logger that cannot leak secrets.
 *
 * Lines are flat: scalars, lists of scalars, and errors reduced by describeError; any other object is omitted, because
 * payloads hide in objects. Messages are constant sentences: arguments for `%s` are dropped. Writes are synchronous, so
 * the last lines before an exit are not lost, as they would be with a worker thread.
 */
export function makeLogger(options: LoggerOptions): Logger {
  const { level, format, service, destination } = options;
  const logger = pino(
    {
      level,
      base: { service, version: VERSION },
      formatters: { level: (label) => ({ level: label }), log: cleanFields },
      // The fields arrive clean; pino's own serializer would look for more.
      serializers: { err: (fields: unknown) => fields },
      hooks: {
        logMethod(args, method) {
          method.apply(this, cleanArguments(args));
        },
      },
    },
    openStream(format, destination),
  );
  // Pino does not pass the fields of a child logger to a formatter.
  const makeChild = (logger as { child: unknown }).child as MakeChild;
  return Object.assign(logger, {
    child(this: Logger, fields: pino.Bindings, childOptions?: pino.ChildLoggerOptions) {
      return makeChild.call(this, cleanFields(fields), childOptions);
    },
  });
}

type MakeChild = (this: Logger, fields: pino.Bindings, options?: pino.ChildLoggerOptions) => Logger;

/** Writes to a logger of another program, with the same care about secrets as to our own log. */
export function forwardLog(
  logger: Readonly<
    Record<"debug" | "info" | "warn" | "error", (fields: Record<string, unknown>, sentence: string) => void>
  >,
): Logger {
  const write = (line: string) => {
    const {
      level,
      msg,
      time: _time,
      service: _service,
      ...fields
    } = JSON.parse(line) as Record<string, string>;
    const name = level === "fatal" ? "error" : level === "trace" ? "debug" : level;
    logger[name as "info"](fields, msg ?? "");
  };
  return makeLogger({ level: "debug", format: "json", service: "order-mirror", destination: { write } });
}

/** Drops everything. */
export const silentLogger: Logger = pino({ level: "silent" }, { write: () => undefined });

function openStream(format: LogFormat, destination: LogStream | undefined): LogStream {
  const sink = destination ?? openDescriptor(STDERR);
  if (format === "json") return sink;
  // Not pino-pretty's own stream: it writes lines in later ticks, so the last ones before an exit would be lost.
  const plain = destination !== undefined || !isatty(STDERR);
  // Loaded only where it is used.
  const { prettyFactory } = createRequire(import.meta.url)("pino-pretty") as typeof PinoPretty;
  const prettify = prettyFactory({
    ...(plain ? { colorize: false } : {}),
    ignore: "service,version",
    translateTime: "SYS:HH:MM:ss.l",
    singleLine: true,
  });
  // Pino escapes only the oldest control characters, and pino-pretty takes even that back.
  const escape = (name: string, value: unknown): unknown =>
    typeof value === "string" ? escapeControls(value, { lines: name === "stack" }) : value;
  return { write: (line) => sink.write(prettify(JSON.parse(line, escape))) };
}

/**
 * Lines that cannot be written, for example on a full disk, are kept up to a limit and retried with the next one:
 * without a listener the error would end a process that can still receive events.
 */
function openDescriptor(fd: number): LogStream {
  const sink = pino.destination({ fd, sync: true, maxLength: UNWRITTEN_BYTES_MAX });
  sink.on("error", () => undefined);
  return sink;
}

type LogArguments = Parameters<pino.LogFn>;

/** Keeps the fields and the sentence; an error alone supplies its own sentence, cleaned. */
function cleanArguments(args: readonly unknown[]): LogArguments {
  const [first, sentence] = args;
  if (typeof first !== "object" || first === null) return [first] as unknown as LogArguments;
  const fields = first instanceof Error ? { err: first } : (first as Record<string, unknown>);
  if (typeof sentence === "string") return [fields, sentence] as LogArguments;
  const { err } = fields;
  return (err instanceof Error ? [fields, describeMessage(err)] : [fields]) as LogArguments;
}

function cleanFields(fields: Record<string, unknown>): Record<string, unknown> {
  const clean: Record<string, unknown> = {};
  for (const name of Object.keys(fields)) {
    clean[name] = mayShow(name, fields[name]) ? cleanValue(fields[name]) : OMITTED;
  }
  return clean;
}

/** Numbers and booleans may: `secret_index`, `body_bytes`. */
function mayShow(name: string, value: unknown): boolean {
  if (typeof value === "number" || typeof value === "boolean") return true;
  return !SECRET_NAME.test(name.replaceAll(/([a-z0-9])([A-Z])/g, "$1_$2").toLowerCase());
}

function cleanValue(value: unknown): unknown {
  if (typeof value === "string") return cutText(value);
  if (typeof value === "bigint") return value.toString();
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Error) return describeError(value);
  if (Array.isArray(value)) {
    return value
      .slice(0, LIST_LENGTH_MAX)
      .map((entry: unknown) => (isScalar(entry) ? cleanValue(entry) : OMITTED));
  }
  return OMITTED;
}

function isScalar(value: unknown): boolean {
  return value === null || (typeof value !== "object" && typeof value !== "function");
}

function cutText(text: string): string {
  return text.length > TEXT_LENGTH_MAX ? `${text.slice(0, TEXT_LENGTH_MAX)}…` : text;
}
