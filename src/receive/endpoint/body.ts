import type { IncomingMessage } from "node:http";

/** The bytes of a request body, or why there are none. */
export type BodyReading = Buffer | "too_large" | "overloaded" | "aborted" | "miswired";

/** Bytes that all requests together may hold in memory. */
export interface ByteBudget {
  /** False, and nothing taken, when the budget would be exceeded. */
  take(bytes: number): boolean;
  giveBack(bytes: number): void;
}

export function makeByteBudget(maxBytes: number): ByteBudget {
  let usedBytes = 0;
  return {
    take(bytes) {
      if (usedBytes + bytes > maxBytes) return false;
      usedBytes += bytes;
      return true;
    },
    giveBack(bytes) {
      usedBytes -= bytes;
    },
  };
}

interface ReadBodyOptions {
  readonly limitBytes: number;
  readonly budget: ByteBudget;
}

/**
 * Reads the body as the bytes that were sent, without decoding, at most `limitBytes` of them.
 *
 * A body that a raw parser in front of us has already read is taken from `req.body`; one that was read and parsed
 * is lost, as its bytes cannot be had back, and gives "miswired". Never rejects. A returned Buffer is paid for
 * from the budget, and whoever called gives its length back when done with it.
 */
export function readBody(req: IncomingMessage, options: ReadBodyOptions): Promise<BodyReading> {
  const { limitBytes, budget } = options;
  const { body } = req as { body?: unknown };
  if (Buffer.isBuffer(body)) {
    if (body.length > limitBytes) return Promise.resolve("too_large");
    return Promise.resolve(budget.take(body.length) ? body : "overloaded");
  }
  if (req.readableDidRead || req.readableEnded) return Promise.resolve("miswired");
  if (Number(req.headers["content-length"] ?? 0) > limitBytes) return Promise.resolve("too_large");
  return new Promise((resolve) => collect(req, options, resolve));
}

function collect(
  req: IncomingMessage,
  { limitBytes, budget }: ReadBodyOptions,
  resolve: (reading: BodyReading) => void,
): void {
  const chunks: Buffer[] = [];
  let bytes = 0;

  function finish(reading: BodyReading): void {
    req.off("data", take).off("end", end).off("close", abort);
    if (typeof reading === "string") budget.giveBack(bytes);
    resolve(reading);
  }
  function take(chunk: Buffer): void {
    if (bytes + chunk.length > limitBytes) refuse("too_large");
    else if (!budget.take(chunk.length)) refuse("overloaded");
    else {
      bytes += chunk.length;
      chunks.push(chunk);
    }
  }
  function refuse(reading: BodyReading): void {
    finish(reading);
    // What still comes is thrown away, until the server's requestTimeout: to close the connection now would
    // reset it, and the sender might never see why it was refused.
    req.resume();
  }
  const end = () => finish(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks, bytes));
  const abort = () => finish("aborted");

  req.on("data", take).on("end", end).on("close", abort);
}
