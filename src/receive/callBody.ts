import type { IncomingMessage } from "node:http";
import { takeReadBody } from "../process/readBody.ts";

// The raw bytes of a call's body, within a bound for all bodies together.

/**
 * The free part of each body: events are a few kilobytes, and Standard Webhooks advises senders to stay below 20.
 * A small event is thus never refused because of others; the limit on connections bounds the total.
 */
const FREE_BYTES = 16_384;

export type BodyBudget = ReturnType<typeof makeBodyBudget>;

/** Makes the bound of the bytes that all bodies together may use, beyond the free part of each. */
export function makeBodyBudget(maxBytes: number) {
  let usedBytes = 0;
  return {
    /** False, and nothing is taken, if there is no room. */
    take(bytes: number): boolean {
      if (usedBytes + bytes > maxBytes) return false;
      usedBytes += bytes;
      return true;
    },
    giveBack: (bytes: number) => void (usedBytes -= bytes),
  };
}

/** The part of a body that counts. */
const countedBytes = (bytes: number) => Math.max(0, bytes - FREE_BYTES);

/** A complete body, whose `release` returns its share of the budget; or the reason why there is none. */
export type BodyReading =
  | { readonly bytes: Buffer; readonly release: () => void }
  | "too_large"
  | "overloaded"
  | "aborted"
  | "body_already_read";

/**
 * Reads the body as raw bytes, at most `limitBytes`.
 *
 * "body_already_read": a parser in front of us has read it, and its bytes are gone. "overloaded": the budget has no
 * room. Never rejects.
 */
export function receiveBody(
  req: IncomingMessage,
  limitBytes: number,
  budget: BodyBudget,
): Promise<BodyReading> {
  const read = takeReadBody(req);
  if (read !== undefined)
    return Promise.resolve(read === "lost" ? "body_already_read" : takeBytes(read, limitBytes));
  if (Number(req.headers["content-length"] ?? 0) > limitBytes) return Promise.resolve("too_large");
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const release = () => budget.giveBack(countedBytes(bytes));

    function finish(reading: BodyReading): void {
      req.off("data", take).off("end", end).off("close", abort);
      if (typeof reading === "string") release();
      resolve(reading);
    }
    function take(chunk: Buffer): void {
      const longer = bytes + chunk.length;
      if (longer > limitBytes) refuse("too_large");
      else if (!budget.take(countedBytes(longer) - countedBytes(bytes))) refuse("overloaded");
      else {
        bytes = longer;
        chunks.push(chunk);
      }
    }
    function refuse(reading: BodyReading): void {
      finish(reading);
      chunks.length = 0;
      // The rest is discarded, until the server's requestTimeout: closing the connection now would reset it, and the
      // sender might never see the reason.
      req.resume();
    }
    const end = () =>
      finish({ bytes: chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks, bytes), release });
    const abort = () => finish("aborted");

    req.on("data", take).on("end", end).on("close", abort);
  });
}

/** A body that is in memory already, where it counts against nothing of ours. */
export function takeBytes(bytes: Buffer, limitBytes: number): BodyReading {
  return bytes.length > limitBytes ? "too_large" : { bytes, release: () => undefined };
}
