import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { connect } from "node:net";
import type { Socket } from "node:net";
import { makeHead } from "./rawHttp.ts";

/** What strangers without a secret do to the port of a web process, all at the same time. */
export interface EdgeAttack {
  readonly port: number;
  /** How long forged requests are sent; longer if needed to send at least `forgedMin`. */
  readonly floodMs: number;
  readonly forgedMin?: number;
  /** Sends requests without waiting for the answers to earlier ones. */
  readonly pipelined: boolean;
}

export interface EdgeAttackEnd {
  /** Forged requests that were sent, and those that were answered 401. */
  readonly sent: number;
  readonly refused: number;
  /** Time from the start until the server held no connections except those of the flood; NaN when others stayed. */
  readonly closedAfterMs: number;
}

const FORGED_PER_SECOND = 5_000;
const FLOOD_CONNECTIONS = 64;
const UNREAD_CONNECTIONS = 300;
/** Behind an unfinished answer: their connection is reset. */
const UNREAD_REQUESTS = [3, 200];
const SLOW_CONNECTIONS = 100;
const SILENT_CONNECTIONS = 1_000;
const SLOW_BODIES_PER_SECOND = 130;
const OPENED_TOGETHER = 50;
const OPEN_INTERVAL_MS = 50;
const SLOW_BYTE_MS = 1_000;
const TICK_MS = 5;
const LOOK_MS = 200;
/** How /proc/net/tcp names a connection that is over. */
const TIME_WAIT = "06";
/** How long the attacker waits for its connections to be closed, and for its flood to be sent. */
const PATIENCE_MS = 90_000;
/** Other addresses than the genuine sender's, so that their connections can be counted. */
const FLOOD_ADDRESS = "127.0.0.2";
const HOLDING_ADDRESS = "127.0.0.3";
const SILENT_ADDRESS = "127.0.0.4";

/**
 * Sends 5,000 forged requests a second on 64 connections, and reopens closed ones. In addition: 300 connections that
 * request some or many documents each and read nothing; 100 that send a byte a second, half of them in a head and half
 * in a body; and 1,000 that only open. Resolves when the flood is over and the server has closed the others, at the
 * latest after 90 s. Only on Linux.
 */
export async function attackEdge(attack: EdgeAttack): Promise<EdgeAttackEnd> {
  const { port } = attack;
  const startedMs = performance.now();
  const unread = await openAll(UNREAD_CONNECTIONS, { port, localAddress: HOLDING_ADDRESS });
  const slow = await openAll(SLOW_CONNECTIONS, { port, localAddress: HOLDING_ADDRESS });
  const silent = await openAll(SILENT_CONNECTIONS, { port, localAddress: SILENT_ADDRESS });
  for (const [place, socket] of unread.entries()) {
    socket.write(
      makeHead("GET /openapi.json", []).repeat(UNREAD_REQUESTS[place % UNREAD_REQUESTS.length] ?? 1),
    );
  }
  const body = makeHead("POST /webhooks/live", [
    ["Content-Type", "application/json"],
    ["Content-Length", 1_000],
  ]);
  for (const [place, socket] of slow.entries()) {
    socket.resume();
    socket.write(place % 2 === 0 ? body : "POST /webhooks/live HTTP/1.1\r\nX-Slow: ");
  }
  for (const socket of silent) socket.resume();
  const dripping = setInterval(() => slow.forEach((socket) => socket.write("x")), SLOW_BYTE_MS);
  const flooded = flood(attack);
  const closedAfterMs = await whenClosed([...slow, ...silent], { port, startedMs });
  clearInterval(dripping);
  for (const socket of [...unread, ...slow, ...silent]) socket.destroy();
  return { ...(await flooded), closedAfterMs };
}

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
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await new Promise((resolve) => setTimeout(resolve, holdMs));
  for (const socket of sockets) socket.destroy();
}

async function openAll(count: number, to: { port: number; localAddress: string }): Promise<Socket[]> {
  const sockets: Socket[] = [];
  while (sockets.length < count) {
    const some = Array.from({ length: Math.min(OPENED_TOGETHER, count - sockets.length) }, () =>
      connect({ ...to, host: "127.0.0.1", noDelay: true }),
    );
    await Promise.all(some.map((socket) => once(socket, "connect")));
    for (const socket of some) socket.on("error", () => undefined);
    sockets.push(...some);
    await new Promise((resolve) => setTimeout(resolve, OPEN_INTERVAL_MS));
  }
  return sockets;
}

/**
 * The time from `startedMs` until the server has closed all connections. `reading` are those that can tell by themselves: a
 * look at the others takes 30 ms of a processor, for which events would wait. Stops waiting for those that stay open.
 */
async function whenClosed(
  reading: readonly Socket[],
  { port, startedMs }: { port: number; startedMs: number },
): Promise<number> {
  for (;;) {
    const sinceMs = performance.now() - startedMs;
    if (reading.every(({ closed }) => closed) && (await countHeld(port)) === 0) return sinceMs;
    if (sinceMs > PATIENCE_MS) return Number.NaN;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

/**
 * Connections of the two addresses that the server's side still holds, as Linux lists them: a client that does not read
 * cannot tell. What the kernel keeps for a closed one counts, too.
 */
async function countHeld(port: number): Promise<number> {
  const lines = (await readFile("/proc/net/tcp", "utf8")).split("\n").slice(1);
  const localPort = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  return lines.filter((line) => {
    const [, local = "", remote = "", state] = line.trim().split(/\s+/);
    const isTheirs = [HOLDING_ADDRESS, SILENT_ADDRESS].some((address) => remote.startsWith(toHex(address)));
    return local.endsWith(localPort) && isTheirs && state !== TIME_WAIT;
  }).length;
}

/** As in /proc/net/tcp: the bytes as a number in the machine's order. */
function toHex(address: string): string {
  const bytes = Uint8Array.from(address.split("."), Number);
  const [number = 0] = new Uint32Array(bytes.buffer);
  return number.toString(16).toUpperCase().padStart(8, "0");
}

/** Only the flood of `attackEdge`. */
export async function flood(attack: EdgeAttack): Promise<{ sent: number; refused: number }> {
  const { port, floodMs, forgedMin = 0, pipelined } = attack;
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
