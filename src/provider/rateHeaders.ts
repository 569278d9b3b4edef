import { parseList, Token } from "structured-headers";
import { millisFromInstant, parseHttpDate, type Instant } from "../domain/order/instant.ts";

/** An entry of the field `RateLimit`: `remaining` requests until `resetMs` from now (null: not given). */
export interface RemainingEntry {
  readonly policy: string;
  readonly remaining: number;
  readonly resetMs: number | null;
}

/** Shorter delays than this are taken for a mistake: they would turn a refusal into a hot loop. */
const RETRY_AFTER_MIN_MS = 1_000;
/** A century: what is longer can hardly be meant, nor written as an instant. */
const RETRY_AFTER_MAX_MS = 3_155_760_000_000;
/** A longer reset of a policy is cut: it is advice about a window of seconds, not a refusal. */
const RESET_MAX_MS = 600_000;
/** Used for a Retry-After that is missing or malformed: the measuring window of the spec, "Limits". */
const RETRY_AFTER_DEFAULT_MS = 10_000;

const SECONDS = /^\d{1,15}$/;

/**
 * The wait that Retry-After asks for, in full, from the receipt of the answer; at least RETRY_AFTER_MIN_MS.
 *
 * `field` is the value of Retry-After, in seconds or an HTTP date; `sentAt` the instant against which a date is
 * measured: the answer's own Date, whose cut second makes the wait longer, never shorter.
 */
export function parseRetryAfter(field: string | null, sentAt: Instant): number {
  const delayMs = readDelayMs(field?.trim() ?? "", sentAt);
  if (delayMs === null) return RETRY_AFTER_DEFAULT_MS;
  return Math.min(Math.max(delayMs, RETRY_AFTER_MIN_MS), RETRY_AFTER_MAX_MS);
}

function readDelayMs(field: string, sentAt: Instant): number | null {
  if (SECONDS.test(field)) return Number(field) * 1000;
  const date = parseHttpDate(field);
  return date === null ? null : millisFromInstant(date - sentAt);
}

/**
 * Reads the members of `RateLimit`, an RFC 9651 list whose members are named by a string or a token (the draft's
 * examples use both). A malformed list is empty, and malformed members are omitted, as the draft requires; never
 * throws.
 */
export function readRemaining(headers: Headers): RemainingEntry[] {
  try {
    return parseList(headers.get("ratelimit") ?? "").flatMap(([value, params]) => {
      if (typeof value !== "string" && !(value instanceof Token)) return [];
      const remaining = readCount(params.get("r"));
      if (remaining === null) return [];
      const resetSeconds = readCount(params.get("t"));
      const resetMs = resetSeconds === null ? null : Math.min(resetSeconds * 1000, RESET_MAX_MS);
      return [{ policy: value.toString(), remaining, resetMs }];
    });
  } catch {
    return [];
  }
}

function readCount(value: unknown): number | null {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 ? value : null;
}
