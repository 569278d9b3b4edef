import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { PipelinePace } from "./pipelinePace.ts";

/** What a connection has sent while the answer to an earlier request is pending. */
interface Waiting {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** A flooding connection is held for up to this part of `floodHoldMs` longer. */
const HOLD_SPREAD = 0.2;

interface OneAtATimeOptions {
  readonly waitingMax: number;
  /** When requests of connections that pipeline are served. */
  readonly pace: PipelinePace;
  /** How long a connection that sent too much is at least held, unread, before it is reset. */
  readonly floodHoldMs: number;
  /** Called when a connection pipelines, for the first time or again. */
  readonly onPipelined: (socket: Socket) => void;
  readonly onFlood: () => void;
  /** Called when a connection that has pipelined has all its answers, as far as the kernel has accepted them. */
  readonly onIdle: (socket: Socket) => void;
}

interface OneAtATime {
  readonly listener: RequestListener;
  /** True while a request of this connection has no complete answer. */
  readonly isAnswering: (socket: Socket) => boolean;
  /** True once a connection has sent a request before it had the answer to another. */
  readonly hasPipelined: (socket: Socket) => boolean;
}

/**
 * Passes the requests of a connection to `listener` one after another. Node forwards a whole packet of them at the same
 * time, so that one connection could cause the work of hundreds, and unread answers could fill the memory. The first one,
 * unless it has a body, is handled when its packet has been parsed: then it is known whether its connection pipelines. The
 * requests of such connections are served at a pace that all of them share, because hundreds of them together would hold up
 * the others.
 *
 * While a request waits behind another, nothing more is read from its connection: only requests of one read wait. When
 * more than `waitingMax` requests wait, which no sender needs, their connection is not read any more, gets no further answer
 * and is reset after a while. Not immediately, because its client would connect again, and a new connection costs more than
 * a held one.
 */
export function oneAtATime(
  listener: RequestListener,
  { waitingMax, pace, floodHoldMs, onPipelined, onFlood, onIdle }: OneAtATimeOptions,
): OneAtATime {
  const queues = new WeakMap<Socket, Waiting[]>();
  const pipelining = new WeakSet<Socket>();
  const flooding = new WeakSet<Socket>();
  const isOver = (socket: Socket) => socket.destroyed || flooding.has(socket);
  const isFull = (socket: Socket) => flooding.has(socket) || (queues.get(socket)?.length ?? 0) > 0;

  function receive(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request;
    if (isOver(socket)) return;
    const queue = queues.get(socket);
    if (queue === undefined) {
      queues.set(socket, []);
      process.nextTick(begin, { request, response });
    } else if (queue.length < waitingMax) {
      queue.push({ request, response });
      stopReading(socket);
      if (queue.length === 1) onPipelined(socket);
    } else hold(socket);
  }

  /** Until no request waits. Node itself resumes a socket at the end of each request that it parses. */
  function stopReading(socket: Socket): void {
    socket.pause();
    if (!pipelining.has(socket)) socket.on("resume", () => void (isFull(socket) && socket.pause()));
    pipelining.add(socket);
  }

  function hold(socket: Socket): void {
    flooding.add(socket);
    queues.set(socket, []);
    dropRestOfPacket(socket);
    socket.pause();
    resetLater(socket, floodHoldMs);
    onFlood();
  }

  function begin(next: Waiting): void {
    const { socket } = next.request;
    if (isOver(socket)) return;
    if (!pipelining.has(socket)) serve(next);
    else if (!pace(() => void (isOver(socket) || serve(next)))) hold(socket);
  }

  function serve({ request, response }: Waiting): void {
    const { socket } = request;
    response.once("close", () => {
      if (isOver(socket)) return;
      const queue = queues.get(socket) ?? [];
      const next = queue.shift();
      // Before the last one is served, because its body may not have arrived yet.
      if (queue.length === 0) socket.resume();
      if (next !== undefined) return begin(next);
      queues.delete(socket);
      // In the next tick, when Node has set its own time-out.
      if (pipelining.has(socket)) process.nextTick(onIdle, socket);
    });
    listener(request, response);
  }

  return {
    listener: receive,
    isAnswering: (socket) => queues.has(socket),
    hasPipelined: (socket) => pipelining.has(socket),
  };
}

/** Not all that came together at the same time, because that would be one block of work. */
function resetLater(socket: Socket, leastMs: number): void {
  const reset = setTimeout(() => socket.resetAndDestroy(), leastMs * (1 + Math.random() * HOLD_SPREAD));
  socket.once("close", () => clearTimeout(reset));
}

/** For Node's parser: no HTTP follows this head, neither a body nor another request. */
const NO_MORE_HTTP = 2;

/**
 * Node parses everything that was read: a packet of 64 KB can hold a thousand requests. Of the rest of this one, only the
 * next head is parsed. If a later Node has no such property, nothing is saved.
 */
function dropRestOfPacket(socket: Socket): void {
  const { parser } = socket as { parser?: { onIncoming?: unknown } | null };
  if (typeof parser?.onIncoming === "function") parser.onIncoming = () => NO_MORE_HTTP;
}
