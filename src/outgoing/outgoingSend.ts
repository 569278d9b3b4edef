import { millisFromInstant } from "../domain/order/instant.ts";
import { parseRetryAfter } from "../provider/rateHeaders.ts";
import { withTimeout } from "../process/abort.ts";
import type { Clock } from "../process/clock.ts";
import { describeError } from "../process/telemetry/errorFields.ts";
import type { OutgoingMessage } from "./outgoingMessage.ts";

/** The endpoint has this long to answer; Standard Webhooks asks for 15 to 30 s. */
const TIMEOUT_MS = 15_000;
const MILLIS_PER_SECOND = 1_000;
/** An answer may be long or endless: only this much of it is read. */
const BEGINNING_BYTES = 1_000;
const BEGINNING_MS = 1_000;

/** A failure has no answer; its `code` names the kind, never what was sent. */
type Outcome =
  | { readonly kind: "answered"; readonly status: number }
  | { readonly kind: "failed"; readonly code: string };

export type SendResult = Outcome & {
  /** From the request to the head of the answer, or to the failure. */
  readonly durationMs: number;
  readonly retryAfterMs: number | null;
  readonly beginning: Buffer;
};

export type AttemptResult = "delivered" | "dead" | "pending";

const HTTP_GONE = 410;

/** Judges an answer to an attempt, or to the last. Any 2xx: the endpoint has the message. 410: it wants no more. */
export function judgeAnswer(answer: Outcome, isLast: boolean): { outcome: string; result: AttemptResult } {
  if (answer.kind === "failed") return { outcome: answer.code, result: isLast ? "dead" : "pending" };
  const { status } = answer;
  const outcome = `status ${status}`;
  if (status >= 200 && status < 300) return { outcome, result: "delivered" };
  return { outcome, result: isLast || status === HTTP_GONE ? "dead" : "pending" };
}

/** Signs a message and posts it; never throws. */
export type SendMessage = (message: OutgoingMessage) => Promise<SendResult>;

export type Sign = (message: OutgoingMessage & { nowSeconds: number }) => Record<string, string>;

/** A redirect is an unsuccessful answer: what is signed for one address is not sent to another. */
export function makeSend(deps: { url: string; sign: Sign; clock: Clock; timeoutMs?: number }): SendMessage {
  const { url, sign, clock, timeoutMs = TIMEOUT_MS } = deps;
  return async (message) => {
    const nowSeconds = Math.floor(millisFromInstant(clock.now()) / MILLIS_PER_SECOND);
    const headers = {
      "content-type": "application/json",
      "user-agent": "order-mirror",
      ...sign({ ...message, nowSeconds }),
    };
    const startedAtMs = clock.monotonicMs();
    const signal = AbortSignal.timeout(timeoutMs);
    try {
      const body = new Uint8Array(message.body);
      const response = await fetch(url, { method: "POST", headers, body, redirect: "manual", signal });
      const durationMs = clock.monotonicMs() - startedAtMs;
      const asked = response.headers.get("retry-after");
      const retryAfterMs = asked === null ? null : parseRetryAfter(asked, clock.now());
      const beginning = await readBeginning(response);
      return { kind: "answered", durationMs, status: response.status, retryAfterMs, beginning };
    } catch (error) {
      const durationMs = clock.monotonicMs() - startedAtMs;
      const nothing = { retryAfterMs: null, beginning: Buffer.alloc(0) };
      return { kind: "failed", durationMs, code: nameFailure(error), ...nothing };
    }
  };
}

/** Resolves with the first bytes of an answer, and ends its connection. Never rejects. */
async function readBeginning({ body }: Response): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  const read = async () => {
    let length = 0;
    for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
      chunks.push(chunk);
      if ((length += chunk.length) >= BEGINNING_BYTES) return;
    }
  };
  // What comes later than that is not waited for, and ends with the time for the whole answer.
  await withTimeout(
    read().catch(() => undefined),
    BEGINNING_MS,
  );
  return Buffer.concat(chunks).subarray(0, BEGINNING_BYTES);
}

/** Names the cause that the system gave to an error of `fetch`; one without a name, such as a bad port, by words. */
function nameFailure(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const { type, code, message } = describeError(cause);
  return code ?? (type === "Error" ? message : type);
}
