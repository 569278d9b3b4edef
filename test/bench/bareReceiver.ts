import type { RequestListener } from "node:http";
import type { Verifier } from "../../src/signature/verifier.ts";

/**
 * The least that a receiver can do: it verifies and parses an event, and stores nothing. `whenAnswered` calls what it is
 * given when the answer may be sent; by default immediately.
 */
export function makeBareReceiver(
  verifier: Verifier,
  whenAnswered: (answer: () => void) => void = (answer) => answer(),
): RequestListener {
  return (req, res) => {
    const chunks: Buffer[] = [];
    req.on("data", (chunk: Buffer) => chunks.push(chunk));
    req.once("end", () => {
      const body = Buffer.concat(chunks);
      const nowSeconds = Math.floor(Date.now() / 1_000);
      const verdict = verifier.verify({ headersDistinct: req.headersDistinct, body, nowSeconds });
      JSON.parse(body.toString());
      whenAnswered(() => void res.writeHead(verdict.valid ? 200 : 401, { "Content-Length": 0 }).end());
    });
  };
}
