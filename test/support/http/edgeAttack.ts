import { connect, type Socket } from "node:net";
import { sendEvent } from "../signing/signing.ts";
import { makeHead } from "./rawHttp.ts";

// What strangers without a secret do to the port of a web process, or of a proxy in front of it; and a genuine sender beside.

export interface Flood {
  readonly port: number;
  /** How long forged requests are sent; longer if needed to send at least `forgedMin`. */
  readonly floodMs: number;
  readonly forgedMin: number;
  /** Sends requests without waiting for the answers to earlier ones. */
  readonly pipelined: boolean;
}

const FORGED_PER_SECOND = 5_000;
const FLOOD_CONNECTIONS = 64;
const SLOW_BODIES_PER_SECOND = 130;
const TICK_MS = 5;
/** How long the attacker tries to send its flood. */
const PATIENCE_MS = 90_000;
/** Other addresses than the genuine sender's. */
const FLOOD_ADDRESS = "127.0.0.2";
const HOLDING_ADDRESS = "127.0.0.3";

/** Opens connections, 130 a second, each of which begins a body and never ends it; they are held for `holdMs` after the last. */
export async function holdBodies({
  port,
  count,
  holdMs,
}: {
  port: number;
  count: number;
  holdMs: number;
}): Promise<void> {
  const sockets: Socket[] = [];
  const head = makeHead("POST /webhooks/live", [
    ["Content-Type", "application/json"],
    ["Content-Length", 1_000],
  ]);
  while (sockets.length < count) {
    for (let place = 0; place < SLOW_BODIES_PER_SECOND / 10; place += 1) {
      const socket = connect({ port, host: "127.0.0.1", localAddress: HOLDING_ADDRESS });
      socket.on("error", () => undefined);
      socket.resume().write(`${head}x`);
      sockets.push(socket);
    }
    // The attack has a rate: a tenth of a second's bodies at once.
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await new Promise((resolve) => setTimeout(resolve, holdMs));
  for (const socket of sockets) socket.destroy();
}

/** Sends 5,000 forged requests a second on 64 connections, and reopens closed ones. */
export async function flood(attack: Flood): Promise<{ sent: number; refused: number }> {
  const { port, floodMs, forgedMin, pipelined } = attack;
  const request = makeForged();
  let sent = 0;
  let refused = 0;
  const waiting = new Map<Socket, number>();
  const open = () => {
    const socket = connect({ port, host: "127.0.0.1", localAddress: FLOOD_ADDRESS, noDelay: true });
    waiting.set(socket, 0);
    socket.on("error", () => undefined);
    socket.on("close", () => waiting.delete(socket));
    socket.on("data", (chunk: Buffer) => {
      const answers = chunk.toString("latin1").split("HTTP/1.1 401").length - 1;
      refused += answers;
      waiting.set(socket, Math.max(0, (waiting.get(socket) ?? 0) - answers));
    });
  };
  const startedMs = performance.now();
  const isOver = (sinceMs: number) => (sinceMs >= floodMs && sent >= forgedMin) || sinceMs > PATIENCE_MS;
  for (let sinceMs = 0; !isOver(sinceMs); sinceMs = performance.now() - startedMs) {
    while (waiting.size < FLOOD_CONNECTIONS) open();
    const due = Math.floor((sinceMs / 1_000) * FORGED_PER_SECOND) - sent;
    const free = [...waiting].filter(([socket, count]) => pipelined || (count === 0 && !socket.connecting));
    for (let place = 0; place < due && free.length > 0; place += 1) {
      const [socket] = pipelined ? (free[sent % free.length] ?? []) : (free.pop() ?? []);
      if (socket === undefined) break;
      socket.write(request);
      waiting.set(socket, (waiting.get(socket) ?? 0) + 1);
      sent += 1;
    }
    await new Promise((resolve) => setTimeout(resolve, TICK_MS));
  }
  for (const socket of waiting.keys()) socket.destroy();
  return { sent, refused };
}

/** A request of a kilobyte with everything that a genuine one has, except the secret. */
function makeForged(): string {
  const body = JSON.stringify({ id: "evt_forged", type: "order.created", data: { note: "x".repeat(900) } });
  const head = makeHead("POST /webhooks/live", [
    ["Content-Type", "application/json"],
    ["Content-Length", body.length],
    ["webhook-id", "msg_forged"],
    ["webhook-timestamp", Math.floor(Date.now() / 1_000)],
    ["webhook-signature", `v1,${Buffer.alloc(32, 7).toString("base64")}`],
  ]);
  return head + body;
}

/**
 * Sends events to a port, and what a busy database did not commit in time again, as a provider does. `refused`: how often.
 * It has to be as often as the web process says of itself (`countUncommitted`): neither it nor a proxy may refuse more.
 */
export function makeGenuineSender() {
  const sender = {
    refused: 0,
    async send(port: number, event: { id: string; body: Buffer }): Promise<number | null> {
      for (;;) {
        const status = await sendEvent(`http://127.0.0.1:${port}/webhooks/live`, event);
        if (status !== 503) return status;
        sender.refused += 1;
      }
    },
  };
  return sender;
}

/** How often a web process has answered 503 to a genuine event because Postgres had not committed it in time. */
export async function countUncommitted(port: number): Promise<number> {
  const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  return Number(/received_total\{[^}]*outcome="unavailable"[^}]*\} (\d+)/.exec(metrics)?.[1] ?? 0);
}
