import type { IncomingMessage } from "node:http";
import type { BodyBudget } from "./bodyBudget.ts";

/** A complete body; `release` returns its share of the budget. */
interface ReadBody {
  readonly bytes: Buffer;
  readonly release: () => void;
}

/** The body of a request, or the reason why there is none. */
export type BodyReading = ReadBody | "too_large" | "overloaded" | "aborted" | "body_already_read";

interface ReadBodyOptions {
  readonly limitBytes: number;
  readonly budget: BodyBudget;
}

/**
 * Reads the body as raw bytes, at most `limitBytes`.
 *
 * If a raw parser in front of us has already read the body, it is taken from `req.body`. A parsed body is lost, because
 * its bytes cannot be restored, and gives "body_already_read". "overloaded": the budget has no room for the body, or no
 * longer has. Never rejects.
 */
export function receiveBody(req: IncomingMessage, options: ReadBodyOptions): Promise<BodyReading> {
  const { limitBytes, budget } = options;
  const { body } = req as { body?: unknown };
  if (Buffer.isBuffer(body)) {
    if (body.length > limitBytes) return Promise.resolve("too_large");
    const account = budget.open(() => undefined);
    if (!account.take(body.length)) return Promise.resolve("overloaded");
    account.complete();
    return Promise.resolve({ bytes: body, release: account.close });
  }
  if (req.readableDidRead || req.readableEnded) return Promise.resolve("body_already_read");
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
  const account = budget.open(() => refuse("overloaded"));

  function finish(reading: BodyReading): void {
    req.off("data", take).off("end", end).off("close", abort);
    if (typeof reading === "string") account.close();
    resolve(reading);
  }
  function take(chunk: Buffer): void {
    if (bytes + chunk.length > limitBytes) refuse("too_large");
    else if (!account.take(chunk.length)) refuse("overloaded");
    else {
      bytes += chunk.length;
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
  function end(): void {
    account.complete();
    const whole = chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks, bytes);
    finish({ bytes: whole, release: account.close });
  }
  const abort = () => finish("aborted");

  req.on("data", take).on("end", end).on("close", abort);
}
