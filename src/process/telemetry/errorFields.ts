import { OrderMirrorError, type Retry } from "../../domain/errors.ts";

/** The loggable parts of an error: none can hold a payload. */
export interface ErrorFields {
  readonly type: string;
  readonly message: string;
  readonly code?: string;
  readonly retry?: Retry;
  /** Frames only: the first line of a JS stack repeats the message. */
  readonly stack?: string;
  /** Type and code of each cause, nearest first; without their messages. */
  readonly causes?: readonly string[];
}

const CAUSES_MAX = 3;
const MESSAGE_LENGTH_MAX = 500;
const FRAMES_MAX = 12;
const FRAME = /^ {4}at /;
const WORD = /^[\w.:-]{1,64}$/;
/** JSON.parse, Postgres and others quote the input in their messages, sometimes with quotes inside. */
const QUOTED = /(["'`])[^]*\1/;

/**
 * The loggable part of anything that was thrown.
 *
 * An allow-list: type, message, code, retry, stack frames, and the types and codes of its causes. `body`, `detail`,
 * `headers`, `response` and anything else that a library attaches to its errors never appear. Messages of our own
 * errors are kept in full, because they carry no personal data; from other messages the quoted parts are removed.
 */
export function describeError(error: unknown): ErrorFields {
  if (!(error instanceof Error)) return { type: typeof error, message: describeMessage(error) };
  const code = readCode(error);
  const frames = readFrames(error);
  const causes = listCauses(error);
  return {
    type: readType(error),
    message: describeMessage(error),
    ...(code === undefined ? {} : { code }),
    ...(error instanceof OrderMirrorError ? { retry: error.retry } : {}),
    ...(frames === "" ? {} : { stack: frames }),
    ...(causes.length === 0 ? {} : { causes }),
  };
}

/** The message of what was thrown, as far as it may be shown: see describeError. */
export function describeMessage(error: unknown): string {
  if (!(error instanceof Error)) return "something that is no Error was thrown";
  const text = String(error.message);
  const safe = error instanceof OrderMirrorError ? text : text.replace(QUOTED, "$1…$1");
  return safe.length > MESSAGE_LENGTH_MAX ? `${safe.slice(0, MESSAGE_LENGTH_MAX)}…` : safe;
}

function readType(error: Error): string {
  return WORD.test(error.name) ? error.name : "Error";
}

function readCode(error: Error): string | undefined {
  const { code } = error as { code?: unknown };
  return typeof code === "string" && WORD.test(code) ? code : undefined;
}

function readFrames(error: Error): string {
  const lines = String(error.stack ?? "").split("\n");
  return lines
    .filter((line) => FRAME.test(line))
    .slice(0, FRAMES_MAX)
    .join("\n");
}

function listCauses(error: Error): string[] {
  const causes: string[] = [];
  let cause = error.cause;
  while (cause instanceof Error && causes.length < CAUSES_MAX) {
    causes.push([readType(cause), readCode(cause)].filter(Boolean).join(" "));
    cause = cause.cause;
  }
  return causes;
}
