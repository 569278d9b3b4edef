import { millisFromInstant } from "../domain/order/instant.ts";
import { parseRetryAfter } from "../provider/rate/retryAfter.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import { describeError } from "../runtime/telemetry/errorFields.ts";
import type { SendMessage, SendResult } from "./outgoingDelivery.ts";
import type { OutgoingMessage } from "./outgoingMessage.ts";

/** The endpoint has this long to answer; Standard Webhooks asks for 15 to 30 s. */
const TIMEOUT_MS = 15_000;
const MILLIS_PER_SECOND = 1_000;

/** The headers that sign a message; see signature/sign.ts. */
export type Sign = (message: OutgoingMessage & { nowSeconds: number }) => Record<string, string>;

/**
 * Makes the function that posts signed messages to one endpoint. A redirect counts as an answer like any other, which
 * is a failure: what is signed for one address is not handed to another.
 */
export function makeSend(deps: { url: string; sign: Sign; clock: Clock; timeoutMs?: number }): SendMessage {
  const { url, sign, clock, timeoutMs = TIMEOUT_MS } = deps;
  return async (message) => {
    const nowSeconds = Math.floor(millisFromInstant(clock.now()) / MILLIS_PER_SECOND);
    try {
      const response = await fetch(url, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          "user-agent": "order-mirror",
          ...sign({ ...message, nowSeconds }),
        },
        body: new Uint8Array(message.body),
        redirect: "manual",
        signal: AbortSignal.timeout(timeoutMs),
      });
      // What an endpoint says beyond its status is not read: it may be long, or never end.
      await response.body?.cancel();
      return readAnswer(response, clock);
    } catch (error) {
      return { kind: "failed", code: nameFailure(error) };
    }
  };
}

function readAnswer({ status, headers }: Response, clock: Clock): SendResult {
  const field = headers.get("retry-after");
  const retryAfterMs = field === null ? null : parseRetryAfter(field, clock.now());
  return { kind: "answered", status, retryAfterMs };
}

/** fetch hides what happened to the connection in a cause. */
function nameFailure(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const { type, code } = describeError(cause);
  return code ?? type;
}
