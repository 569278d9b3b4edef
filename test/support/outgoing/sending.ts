import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import { beforeEach, expect, onTestFinished, vi } from "vitest";
import type { Pool } from "../../../src/database/database.ts";
import type { Wanted } from "../../../src/outgoing/outgoingDeliveries.sql.ts";
import { syncEndpoints } from "../../../src/outgoing/outgoingEndpoints.sql.ts";
import { openOutgoing } from "../../../src/outgoing/outgoing.ts";
import { makeSend } from "../../../src/outgoing/outgoingSend.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { makeSigner } from "../../../src/signature/sign.ts";
import { openTestDatabase } from "../servers/database.ts";
import { emptying } from "../mirror/tables.ts";
import { makeLiveApply } from "../mirror/liveApply.ts";
import { addSource, at, makeSnapshot, readAt, type OrderSketch } from "../mirror/orders.ts";
import { WEBHOOK_SECRET } from "../signing/signing.ts";
import { listenHere } from "../http/serve.ts";
import { logInto } from "../run/logInto.ts";

const RETRY_SECONDS = [0.05, 0.05, 0.05];
export const WAIT = { timeout: 30_000, interval: 20 };
const TABLES = "outgoing_deliveries outgoing_endpoints orders history changes coverage retention_walks";

interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** Reference and revision. */
  readonly change: string;
}
export type Answer = (response: ServerResponse, change: { reference: string; revision: number }) => void;

interface Options {
  readonly answer?: Answer;
  readonly processes?: number;
  readonly ordered?: boolean;
  readonly rate?: number | null;
  readonly timeoutMs?: number;
  readonly fields?: "all" | "redacted";
  readonly wanted?: Partial<Wanted>;
  readonly retrySeconds?: readonly number[];
  /** Null: only what wakes it makes it look. */
  readonly lookEveryMs?: null;
}

export const accept: Answer = (response) => void response.writeHead(204).end();
export const refuse =
  (...statuses: number[]): Answer =>
  (response) =>
    void response.writeHead(statuses.shift() ?? 200).end("thanks");

export async function seeOn(database: Pool, ...orders: OrderSketch[]): Promise<void> {
  const snapshots = orders.map((order) => makeSnapshot(order));
  await makeLiveApply(database).applyReads({ sourceId: "live", via: "poll", snapshots, time: readAt(0n, 0) });
}
export const references = (count: number) => Array.from({ length: count }, (_, index) => `R${index}-`);

/** A database with the source `live`, emptied before each test of the file, and endpoints that end with one. */
export async function openSending() {
  const { pool } = await openTestDatabase();
  await addSource(pool, "live");
  beforeEach(() => pool.query(emptying(TABLES)));
  const see = (...orders: OrderSketch[]) => seeOn(pool, ...orders);
  /** A change of the status for each of the statuses, one order after the other. */
  const change = async (names: readonly string[], statuses: readonly string[] = ["created"]) => {
    for (const [index, status] of statuses.entries())
      await see(...names.map((reference) => ({ reference, status, updatedAt: at(index + 1) })));
  };
  const listAs = (definition: string, ...names: string[]) => {
    const listed = names.map((endpointId) => ({ endpointId, sourceIds: ["live"], definition }));
    return syncEndpoints(pool, listed);
  };
  /** Lists these endpoints, each with the source `live`. */
  const list = (...names: string[]) => listAs("", ...names);
  /** As if this much time had passed since. */
  const age = (column: string, interval: string) =>
    pool.query(`update mirror.outgoing_endpoints set ${column} = clock_timestamp() - interval '${interval}'`);
  const states = () => readStates(pool);
  const settled = (...wanted: string[]) =>
    vi.waitFor(async () => expect(await states()).toEqual(wanted), WAIT);
  const deliveredAll = (count: number) =>
    vi.waitFor(async () => {
      const ended = (await states()).filter((state) => state.startsWith("delivered"));
      expect(ended).toHaveLength(count);
    }, WAIT);
  const open = makeOpen(pool);
  return { pool, see, change, list, listAs, age, open, states, settled, deliveredAll };
}

async function readStates(pool: Pool): Promise<string[]> {
  const { rows } = await pool.query<{ state: string; attempts: number; outcome: string | null }>(
    "select state, attempts, last_outcome as outcome from mirror.outgoing_deliveries order by position, created_at",
  );
  return rows.map(({ state, attempts, outcome }) => `${state} ${attempts} ${outcome}`);
}

/** Opens an endpoint with a name of its own, which as many processes serve. */
function makeOpen(pool: Pool) {
  let number = 0;
  return async (options: Options = {}) => {
    const { answer = accept, processes = 1, ordered = false, rate = null, fields = "all" } = options;
    const endpointId = `erp-${(number += 1)}`;
    const received: Received[] = [];
    const warnings: string[] = [];
    const wakes: (() => void)[] = [];
    const server = createServer((request, response) => {
      let text = "";
      request.on("data", (part: Buffer) => (text += part.toString()));
      request.on("end", () => {
        const { data } = JSON.parse(text) as { data: { reference: string; revision: number } };
        received.push({ headers: request.headers, text, change: `${data.reference}${data.revision}` });
        answer(response, data);
      });
    });
    const { url } = await listenHere(server);
    const sign = makeSigner({ secrets: [WEBHOOK_SECRET] });
    const send = makeSend({ url, sign, clock: systemClock, timeoutMs: options.timeoutMs ?? 60_000 });
    const wanted = { endpointId, definition: "", types: null, statuses: null, ...options.wanted };
    for (let index = 0; index < processes; index += 1) {
      const one = await openOutgoing({
        pool,
        endpoints: [{ ...wanted, sourceIds: ["live"], send, fields, ordered, rate }],
        clock: systemClock,
        logger: logInto((line) => warnings.push(line)),
        retrySeconds: options.retrySeconds ?? RETRY_SECONDS,
        lookEveryMs: options.lookEveryMs === null ? 3_600_000 : 50,
      });
      wakes.push(() => one.wake());
      onTestFinished(async () => {
        server.closeAllConnections();
        await one.close();
        server.close();
      });
    }
    const seen = () => received.map((each) => each.change);
    const wake = () => {
      for (const each of wakes) each();
    };
    return { endpointId, received, warnings, seen, wake };
  };
}
