import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { buffer } from "node:stream/consumers";
import { expect } from "vitest";
import { systemClock } from "../../../src/process/clock.ts";
import { at, makeEventBody } from "../mirror/orders.ts";
import { sendEvent } from "../signing/signing.ts";
import { listenHere } from "../http/serve.ts";
import type { Pool } from "../../../src/database/database.ts";

const SENDERS = 8;
const PAUSE_MS = 50;

/** Sends events of new orders to `url`, the webhook address of the source live, with its own record of the answers. */
export function makeEventLoad(url: string) {
  const run = randomUUID().slice(0, 8);
  const bodies = new Map<string, Buffer>();
  /** Ids of the events that were answered 200. */
  const acknowledged = new Set<string>();
  /** How many answers of each kind there were; `unknown` are those that never came. */
  const answers: Record<string, number> = { "200": 0, unknown: 0 };
  let running: Promise<unknown> = Promise.resolve();
  let stopping = false;

  async function deliver(id: string): Promise<number | null> {
    const body = bodies.get(id) ?? Buffer.alloc(0);
    const status = await sendEvent(url, { id, body });
    const name = String(status ?? "unknown");
    answers[name] = (answers[name] ?? 0) + 1;
    if (status === 200) acknowledged.add(id);
    return status;
  }
  /** Sends one new event. Resolves with the status; null when no answer arrived, so that the outcome is unknown. */
  function send(): Promise<number | null> {
    const place = bodies.size + 1;
    const id = `evt_${run}_${place}`;
    const order = { reference: `R-${run}-${place}`, updatedAt: at(place) };
    bodies.set(id, makeEventBody({ id, order }));
    return deliver(id);
  }
  async function stop(): Promise<void> {
    stopping = true;
    await running;
  }
  async function sendOn(): Promise<void> {
    while (!stopping) {
      // Without the pause, the senders would spin while nothing listens or everything is refused.
      if ((await send()) !== 200) await systemClock.sleep(PAUSE_MS);
    }
  }
  return {
    acknowledged,
    answers,
    send,
    /** Sends new events, some at a time, until `stop`. */
    start() {
      stopping = false;
      running = Promise.all(Array.from({ length: SENDERS }, sendOn));
    },
    /** Resolves when so many more are acknowledged. */
    async more(count: number) {
      const enough = acknowledged.size + count;
      await expect.poll(() => acknowledged.size, { interval: 5 }).toBeGreaterThanOrEqual(enough);
    },
    stop,
    /** Stops, and sends events again, as a provider does, until all are acknowledged. */
    async settle() {
      await stop();
      for (;;) {
        const left = [...bodies.keys()].filter((id) => !acknowledged.has(id));
        if (left.length === 0) return;
        await Promise.all(
          Array.from({ length: SENDERS }, async () => {
            for (let id = left.pop(); id !== undefined; id = left.pop()) await deliver(id);
          }),
        );
      }
    },
  };
}

const TIMEOUT_MS = 8_000;

/** Relays events from provider to receiver, and keeps its own record of what the receiver acknowledged. */
export async function startEventRelay(receiverUrl: string) {
  const acknowledged = new Set<string>();
  /** How many deliveries were refused, and how many got no answer, so that their outcome is unknown. */
  const counts = { refused: 0, unknown: 0 };
  const server = createServer((request, response) => {
    void (async () => {
      const body = await buffer(request);
      const signed = Object.entries(request.headers).filter(
        ([name]) => name.startsWith("webhook-") || name === "content-type",
      );
      const status = await fetch(receiverUrl, {
        method: "POST",
        headers: Object.fromEntries(signed) as Record<string, string>,
        body: new Uint8Array(body),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      }).then(
        (answer) => answer.status,
        () => undefined,
      );
      if (status === 200) acknowledged.add((JSON.parse(body.toString()) as { id: string }).id);
      else counts[status === undefined ? "unknown" : "refused"] += 1;
      response.writeHead(status ?? 502).end();
    })().catch(() => response.destroy());
  });
  const { url, close } = await listenHere(server);
  return {
    url: `${url}/webhooks/live`,
    acknowledged,
    counts,
    close,
  };
}

/** Makes Postgres refuse the events with this id, which no sender can cause; returns a function that undoes it. */
export async function refuseEvents(pool: Pool, eventId: string): Promise<() => Promise<void>> {
  // Our own name, and a literal that only tests write.
  await pool.query(`alter table mirror.inbox add constraint refused check (event_id <> '${eventId}')`);
  return async () => {
    await pool.query("alter table mirror.inbox drop constraint refused");
  };
}
