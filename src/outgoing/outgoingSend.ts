import type { IncomingMessage } from "node:http";
import { millisFromInstant } from "../domain/order/instant.ts";
import { parseRetryAfter } from "../provider/rateHeaders.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import { describeError } from "../runtime/telemetry/errorFields.ts";
import type { SendMessage } from "./outgoingDelivery.ts";
import type { OutgoingMessage } from "./outgoingMessage.ts";
import { lookup } from "node:dns";
import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import type { LookupFunction } from "node:net";
import { isLoopback, namesThisMachine } from "../runtime/http/loopback.ts";
import { withSignals } from "../runtime/lifecycle/abort.ts";
import { isPrivateAddress, literalAddress } from "../runtime/http/privateAddress.ts";

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

/** The endpoint's name leads to an address that this endpoint may not have. */
const NOT_ALLOWED = "ERR_PRIVATE_ADDRESS";

export interface PostOptions {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly timeoutMs: number;
  readonly allowPrivate: boolean;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Posts `body` and resolves with the head of the answer; its body is for readBeginning. The address is checked when the
 * connection is made, not before: a foreign DNS name may change its address a moment later (DNS rebinding). @internal
 */
export function postOutgoing(
  url: URL,
  { headers, body, timeoutMs, allowPrivate, signal }: PostOptions,
): Promise<IncomingMessage> {
  const accepts = acceptedAddresses(url, allowPrivate);
  const literal = literalAddress(url);
  const post = (ending: AbortSignal) =>
    new Promise<IncomingMessage>((resolve, reject) => {
      if (literal !== undefined && !accepts(literal)) {
        reject(makeRefusal());
        return;
      }
      const send = url.protocol === "https:" ? requestHttps : requestHttp;
      const request = send(url, {
        method: "POST",
        headers: { ...headers, "content-length": body.length },
        signal: ending,
        lookup: makeLookup(accepts),
        // A reused connection would skip the check of its name's current address.
        agent: false,
      });
      request.once("response", (response) => {
        response.on("error", () => undefined);
        resolve(response);
      });
      request.on("error", reject);
      request.end(body);
    });
  return withSignals([AbortSignal.timeout(timeoutMs), signal], post);
}

/** An answer may be long or endless: only this much of it is read. */
const BEGINNING_BYTES = 1_000;
const BEGINNING_MS = 1_000;

/** Resolves with the first bytes of an answer, and ends its connection. Never rejects. */
function readBeginning(response: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let length = 0;
    function end(): void {
      clearTimeout(timer);
      response.destroy();
      resolve(Buffer.concat(chunks).subarray(0, BEGINNING_BYTES));
    }
    const timer = setTimeout(end, BEGINNING_MS);
    response.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      length += chunk.length;
      if (length >= BEGINNING_BYTES) end();
    });
    response.once("close", end);
  });
}

type Accepts = (address: string) => boolean;

/**
 * Accepts this machine's addresses for its own names; public addresses for other names, or any if the endpoint is
 * private. @internal
 */
export function acceptedAddresses(url: URL, allowPrivate: boolean): Accepts {
  if (namesThisMachine(url.host)) return isLoopback;
  return allowPrivate ? () => true : (address) => !isPrivateAddress(address);
}

/** Resolves a name to those of its addresses that are accepted; fails when it has none. @internal */
export function makeLookup(accepts: Accepts, resolve: typeof lookup = lookup): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname, { ...options, all: true }, (error, addresses) => {
      const allowed = error ? [] : addresses.filter(({ address }) => accepts(address));
      const [first] = allowed;
      if (error || !first) callback(error ?? makeRefusal(), []);
      else if (options.all === true) callback(null, allowed);
      else callback(null, first.address, first.family);
    });
  };
}

function makeRefusal(): NodeJS.ErrnoException {
  return Object.assign(new Error("the endpoint has a private address"), { code: NOT_ALLOWED });
}
