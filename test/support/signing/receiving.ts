import { hash, randomUUID } from "node:crypto";
import express, { type RequestHandler } from "express";
import { makePool } from "../../../src/database/database.ts";
import { insertEvents } from "../../../src/receive/inbox.sql.ts";
import { makeGroupCommit } from "../../../src/receive/groupCommit.ts";
import { makeReceiver, type CallEnd, type ReceiverDeps } from "../../../src/receive/receiver.ts";
import { makeHttpServer, type ServerLimits } from "../../../src/process/httpServer.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { makeSigner } from "../../../src/signature/sign.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";
import { logInto } from "../run/logInto.ts";
import { addSource } from "../mirror/orders.ts";
import { makeHead } from "../http/rawHttp.ts";
import { listenHere } from "../http/serve.ts";
import { makeSecrets } from "./signing.ts";

const secretOf = (seed: number) => `whsec_${hash("sha256", `secret ${seed}`, "base64")}`;
export const LIVE_SECRETS = [secretOf(1), secretOf(2)] as const;
export const TEST_SECRET = secretOf(3);
/** Of the source `keyed`: what its sender signs with, and what we verify with. */
export const KEYED = makeSecrets(loadScheme("standard-webhooks-ed25519"), Buffer.alloc(0));

export type Receiving = Awaited<ReturnType<typeof startReceiving>>;

/** A receiver with the sources live and test, as the product composes it, on the database at `url`. */
export async function startReceiving(options: {
  url: string;
  /** What reads bodies in front of it: then it is mounted in Express. */
  parser?: RequestHandler;
  serverLimits?: Partial<ServerLimits>;
  limits?: ReceiverDeps["limits"];
  /** Waits for Postgres no longer than the product, which a busy machine may need. */
  givesUp?: boolean;
}) {
  const patienceMs = options.givesUp ? 1_500 : 60_000;
  const pool = makePool({
    url: options.url,
    purpose: "receive",
    max: 2,
    statementTimeoutMs: patienceMs,
    connectTimeoutMs: patienceMs,
  });
  for (const sourceId of ["live", "test", "plain", "keyed"]) await addSource(pool, sourceId);
  const limits = options.givesUp ? {} : { deadlineMs: patienceMs };
  const { store } = makeGroupCommit({ insert: (events) => insertEvents(pool, events), limits });
  const notified: number[] = [];
  /** The number of calls by outcome. */
  const counts: Partial<Record<CallEnd["outcome"], number>> = {};
  /** Verified events: how many were given to the inbox so far, and how many of them have their result. */
  const stores = { begun: 0, ended: 0 };
  const lines: Record<string, unknown>[] = [];
  const logger = logInto((line) => lines.push(JSON.parse(line) as Record<string, unknown>), "debug");
  const receiver = makeReceiver({
    sources: new Map(
      Object.entries({
        live: verifierOf("standard-webhooks", ...LIVE_SECRETS),
        test: verifierOf("standard-webhooks", TEST_SECRET),
        // A scheme that sends no id.
        plain: verifierOf("github", "a plain secret"),
        keyed: verifierOf("standard-webhooks-ed25519", KEYED.verifying),
      }),
    ),
    store(event) {
      stores.begun += 1;
      return store(event).finally(() => (stores.ended += 1));
    },
    notify: (seqs) => notified.push(...seqs),
    clock: systemClock,
    logger,
    ...(options.limits ? { limits: options.limits } : {}),
    onEnd(end) {
      counts[end.outcome] = (counts[end.outcome] ?? 0) + 1;
    },
  });
  const { parser } = options;
  const listener = parser ? express().use(parser, (req, res) => receiver(req, res)) : receiver;
  const server = makeHttpServer(listener, { limits: options.serverLimits ?? {}, clock: systemClock, logger });
  const { port, close } = await listenHere(server);
  return {
    port,
    server,
    receiver,
    notified,
    counts,
    stores,
    lines,
    async close() {
      await close();
      await pool.end();
    },
  };
}

const verifierOf = (scheme: string, ...secrets: string[]) => ({
  verifier: loadVerifier({ scheme: loadScheme(scheme), secrets }),
});

export function makeBody(id: unknown = `evt_${randomUUID()}`, padding = ""): Buffer {
  return Buffer.from(
    JSON.stringify({ id, type: "order.picked_up", data: { reference: "R1" }, padding }),
    "utf8",
  );
}

/** The three signature headers of the scheme standard-webhooks. */
export function signHeaders(
  body: Buffer,
  { secret = LIVE_SECRETS[0], id = `msg_${randomUUID()}`, nowSeconds = Math.floor(Date.now() / 1_000) } = {},
): Record<string, string> {
  return makeSigner({ secrets: [secret] })({ id, body, nowSeconds });
}

export type Header = readonly [string, string | number];

/** The head of a signed request with JSON; `more` headers come last. */
export const headOf = (body: Buffer, ...more: readonly Header[]): string =>
  makeHead("POST /webhooks/live", [
    ["Content-Type", "application/json"],
    ...Object.entries(signHeaders(body)),
    ...more,
  ]);
export const lengthOf = (body: Buffer): Header => ["Content-Length", body.length];
export const CHUNKED: Header = ["Transfer-Encoding", "chunked"];

/** Posts a signed body with fetch; `headers` are added to or replace those of the signature. */
export function post(
  port: number,
  body: Buffer,
  options: {
    source?: string;
    headers?: Record<string, string>;
    secret?: string;
    id?: string;
    nowSeconds?: number;
  } = {},
): Promise<Response> {
  const { source = "live", headers = {}, ...signing } = options;
  return fetch(`http://127.0.0.1:${port}/webhooks/${source}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...signHeaders(body, signing), ...headers },
    body: new Uint8Array(body),
  });
}
