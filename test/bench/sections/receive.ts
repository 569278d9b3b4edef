import { createServer } from "node:http";
import type { RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import express from "express";
import { insertEvents } from "../../../src/receive/inbox.sql.ts";
import { makeGroupCommit } from "../../../src/receive/groupCommit.ts";
import { makeReceiver } from "../../../src/receive/receiver.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";
import { WEBHOOK_SECRET } from "../../support/signing/webhooks.ts";
import { makeBareReceiver } from "../bareReceiver.ts";
import type { Bench } from "../bench.ts";
import { startLoad } from "../children.ts";
import { amount } from "../effort.ts";
import type { LoadAnswer } from "../processes/load.ts";
import { compare } from "../measure.ts";
import type { Subject } from "../measure.ts";
import { deliveryEvents } from "../../../src/wire/events.ts";

const REQUESTS = amount(30_000);
const CONNECTIONS = 64;

/** Receiving: our endpoint with its durable commit, compared with a bare handler that only verifies and parses. */
export const benchReceive: Bench = async ({ pool, onEnd }) => {
  const load = await startLoad();
  onEnd(load.stop);
  const verifier = loadVerifier({ scheme: loadScheme("standard-webhooks"), secrets: [WEBHOOK_SECRET] });
  const commit = makeGroupCommit({ insert: (events) => insertEvents(pool, events) });
  const receiver = makeReceiver({
    events: deliveryEvents,
    sources: new Map([["live", { verifier }]]),
    store: commit.store,
    notify: () => undefined,
    clock: systemClock,
    logger: silentLogger,
  });
  const plainExpress = express();
  plainExpress.post("/webhooks/live", express.raw({ type: () => true, limit: "1mb" }), (_req, res) => {
    res.status(200).json({ received: true });
  });
  let round = 0;
  const subject = (name: string, listener: RequestListener): Subject => ({
    name,
    run: () =>
      withServer(listener, (url) =>
        load.ask<LoadAnswer>({ url, requests: REQUESTS, connections: CONNECTIONS, round: (round += 1) }),
      ),
  });
  return compare({
    section: "receive",
    unit: "/s",
    subjects: [
      {
        ...subject("our receiver, committed before 200", receiver),
        goal: "at least 0.5 of the limit and 1.4 of bare Express, p99 < 10 ms",
      },
      subject("bare Express with express.raw, nothing verified", plainExpress as RequestListener),
    ],
    limit: subject("limit: bare handler that verifies and parses", makeBareReceiver(verifier)),
  });
};

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
