import type { IncomingMessage } from "node:http";
import { millisFromInstant } from "../domain/order/instant.ts";
import { parseRetryAfter } from "../provider/rateHeaders.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import { describeError } from "../runtime/telemetry/errorFields.ts";
import type { SendMessage } from "./outgoingDelivery.ts";
import type { OutgoingMessage } from "./outgoingMessage.ts";
import { postOutgoing, readBeginning } from "./outgoingRequest.ts";

/** The endpoint has this long to answer; Standard Webhooks asks for 15 to 30 s. */
const TIMEOUT_MS = 15_000;
const MILLIS_PER_SECOND = 1_000;

export type Sign = (message: OutgoingMessage & { nowSeconds: number }) => Record<string, string>;

/** A redirect is an unsuccessful answer: what is signed for one address is not sent to another. */
export function makeSend(deps: {
  url: string;
  sign: Sign;
  clock: Clock;
  /** Whether the endpoint may have an address in a private network; see postOutgoing. */
  allowPrivate?: boolean;
  timeoutMs?: number;
  /** Ends the attempt that is under way; it counts as failed. */
  signal?: AbortSignal;
}): SendMessage {
  const { sign, clock, allowPrivate = false, timeoutMs = TIMEOUT_MS, signal } = deps;
  const url = new URL(deps.url);
  return async (message) => {
    const nowSeconds = Math.floor(millisFromInstant(clock.now()) / MILLIS_PER_SECOND);
    const headers = {
      "content-type": "application/json",
      "user-agent": "order-mirror",
      ...sign({ ...message, nowSeconds }),
    };
    const body = Buffer.from(message.body);
    const startedAtMs = clock.monotonicMs();
    const lasted = () => clock.monotonicMs() - startedAtMs;
    try {
      const response = await postOutgoing(url, { headers, body, timeoutMs, allowPrivate, signal });
      const durationMs = lasted();
      const beginning = await readBeginning(response);
      return { kind: "answered", durationMs, beginning, ...readHead(response, clock) };
    } catch (error) {
      return { kind: "failed", durationMs: lasted(), code: nameFailure(error) };
    }
  };
}

function readHead({ statusCode = 0, headers }: IncomingMessage, clock: Clock) {
  const field = headers["retry-after"];
  const retryAfterMs = field === undefined ? null : parseRetryAfter(field, clock.now());
  return { status: statusCode, retryAfterMs };
}

/** An abort hides its reason, the time-out, in a cause. */
function nameFailure(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const { type, code } = describeError(cause);
  return code ?? type;
}
