import { spawn } from "node:child_process";
import { createServer } from "node:http";
import type { RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { createInterface } from "node:readline";
import express from "express";
import { insertEvents } from "../../src/mirror/inbox.ts";
import type { Pool } from "../../src/mirror/database.ts";
import { makeGroupCommit } from "../../src/receive/groupCommit.ts";
import { makeReceiver } from "../../src/receive/receiver.ts";
import { systemClock } from "../../src/runtime/clock.ts";
import { silentLogger } from "../../src/runtime/logger.ts";
import { loadScheme } from "../../src/signature/scheme.ts";
import { loadVerifier } from "../../src/signature/verifier.ts";
import { WEBHOOK_SECRET } from "../support/webhooks.ts";
import { compare } from "./measure.ts";
import type { Figure, Sample, Subject } from "./measure.ts";

const REQUESTS = 12_000;
const CONNECTIONS = 64;

/** Receiving: our endpoint with its durable commit, against a bare handler that only verifies and parses. */
export async function benchReceive(pool: Pool): Promise<Figure[]> {
  const load = startLoad();
  const verifier = loadVerifier({ scheme: loadScheme("standard-webhooks"), secrets: [WEBHOOK_SECRET] });
  const commit = makeGroupCommit({ insert: (events) => insertEvents(pool, events) });
  const receiver = makeReceiver({
    sources: new Map([["live", { verifier }]]),
    store: commit.store,
    ring: () => undefined,
    clock: systemClock,
    logger: silentLogger,
  });
  const bare: RequestListener = (req, res) => {
    const chunks: Buffer[] = [];
    req.on("data", (chunk: Buffer) => chunks.push(chunk));
    req.once("end", () => {
      const body = Buffer.concat(chunks);
      const nowSeconds = Math.floor(Date.now() / 1_000);
      const verdict = verifier.verify({ headersDistinct: req.headersDistinct, body, nowSeconds });
      JSON.parse(body.toString());
      res.writeHead(verdict.valid ? 200 : 401).end("{}");
    });
  };
  const plainExpress = express();
  plainExpress.post("/webhooks/live", express.raw({ type: () => true, limit: "1mb" }), (_req, res) => {
    res.status(200).json({ received: true });
  });
  let round = 0;
  const subject = (name: string, listener: RequestListener): Subject => ({
    name,
    run: () =>
      withServer(listener, (url) =>
        load.send({ url, requests: REQUESTS, connections: CONNECTIONS, round: (round += 1) }),
      ),
  });
  const figures = await compare("receive", [
    subject("our receiver, committed before 200", receiver),
    subject("bare Express with express.raw, nothing verified", plainExpress as RequestListener),
    subject("limit: bare handler that verifies and parses", bare),
  ]);
  load.stop();
  return figures;
}

function startLoad() {
  const script = path.join(import.meta.dirname, "load.ts");
  const child = spawn(process.execPath, ["--import", "tsx", script], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    async send(order: object): Promise<Sample> {
      child.stdin.write(`${JSON.stringify(order)}\n`);
      const line = await lines.next();
      if (line.done === true) throw new Error("the load generator ended");
      return JSON.parse(line.value) as Sample;
    },
    stop: () => child.kill(),
  };
}

async function withServer<Result>(
  listener: RequestListener,
  use: (url: string) => Promise<Result>,
): Promise<Result> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    return await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}/webhooks/live`);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}
