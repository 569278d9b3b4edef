import { createServer } from "node:http";
import { listenOn, localUrl } from "../../../src/process/httpServer.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";
import { WEBHOOK_SECRET } from "../../support/signing/signing.ts";

/**
 * The least that a receiver can do, as a separate process: it verifies and parses an event, and stores nothing. Sends its
 * address first.
 */
const verifier = loadVerifier({ scheme: loadScheme("standard-webhooks"), secrets: [WEBHOOK_SECRET] });
const server = createServer((req, res) => {
  const chunks: Buffer[] = [];
  req.on("data", (chunk: Buffer) => chunks.push(chunk));
  req.once("end", () => {
    const body = Buffer.concat(chunks);
    const nowSeconds = Math.floor(Date.now() / 1_000);
    const verdict = verifier.verify({ headersDistinct: req.headersDistinct, body, nowSeconds });
    JSON.parse(body.toString());
    res.writeHead(verdict.valid ? 200 : 401, { "Content-Length": 0 }).end();
  });
});
const port = await listenOn(server, { host: "127.0.0.1", port: 0, portVariable: "PORT" });
process.send?.(localUrl("127.0.0.1", port));
