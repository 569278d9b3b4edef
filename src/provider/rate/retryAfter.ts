import { millisFromInstant, parseHttpDate } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";

/** Shorter waits than this are taken for a mistake: they would turn a refusal into a hot loop. */
const RETRY_AFTER_MIN_MS = 1_000;
/** Longer waits than this are cut: one absurd header must not stop the mirror for days. */
const RETRY_AFTER_MAX_MS = 600_000;
/** When the header is missing or malformed: the measuring window of the spec, "Limits". */
const RETRY_AFTER_DEFAULT_MS = 10_000;

const SECONDS = /^\d{1,15}$/;

/**
 * How long to wait, from the receipt of the answer: RETRY_AFTER_MIN_MS to RETRY_AFTER_MAX_MS.
 *
 * `field` is the value of Retry-After, in seconds or an HTTP date; `sentAt` the instant against which a date is
 * measured: the answer's own Date, whose cut second makes the wait longer, never shorter.
 */
export function parseRetryAfter(field: string | null, sentAt: Instant): number {
  const waitMs = readWaitMs(field?.trim() ?? "", sentAt);
  if (waitMs === null) return RETRY_AFTER_DEFAULT_MS;
  return Math.min(Math.max(waitMs, RETRY_AFTER_MIN_MS), RETRY_AFTER_MAX_MS);
}

function readWaitMs(field: string, sentAt: Instant): number | null {
  if (SECONDS.test(field)) return Number(field) * 1000;
  const date = parseHttpDate(field);
  return date === null ? null : millisFromInstant(date - sentAt);
}
