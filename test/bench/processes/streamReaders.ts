import { connect, type Socket } from "node:net";

/** Follows /v1/changes/stream with many readers, in a separate process so that they do not use the server's time. */
export type StreamOrder = OpenOrder | CountOrder;

interface OpenOrder {
  readonly base: string;
  readonly readers: number;
}

interface CountOrder {
  readonly round: number;
  /** Changes that each reader waits for. */
  readonly count: number;
}

/** For each reader, when it received each change of the round, in milliseconds since 1970; 0 for one that never arrived. */
export interface StreamAnswer {
  readonly atMs: readonly Float64Array[];
}

const PATIENCE_MS = 60_000;
const LOOK_MS = 20;
/** An id follows. */
const EVENT_ID = '"eventId":"';
const FRAME_END = "\n\n";
/** The end of an HTTP chunk, behind the end of its frames. */
const CHUNK_END_LENGTH = 2;
const READ_LENGTH = 65_536;

/** For each reader, when it received each event. */
const seen: Map<string, number>[] = [];
let closeAll: () => void = () => undefined;

/** Reopens the streams; resolves when every reader has its first frame. */
async function open({ base, readers }: OpenOrder): Promise<void> {
  closeAll();
  const following = Array.from({ length: readers }, (_, reader) => {
    const times = (seen[reader] = new Map<string, number>());
    return follow(new URL(base), times);
  });
  closeAll = () => following.forEach(({ socket }) => socket.destroy());
  await Promise.all(following.map(({ opened }) => opened));
}

/** All sockets read into the same memory: what is kept is copied. */
const shared = Buffer.alloc(READ_LENGTH);

/**
 * Reads bytes from the socket and searches them: a client that parses and decodes needs four times as long, which delays the
 * next readers, whose machine this is, too.
 */
function follow(
  { hostname, port, host }: URL,
  times: Map<string, number>,
): { socket: Socket; opened: Promise<void> } {
  let rest: Buffer = Buffer.alloc(0);
  let onFrame: () => void = () => undefined;
  const callback = (length: number) => {
    const nowMs = performance.timeOrigin + performance.now();
    const chunk = shared.subarray(0, length);
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    const end = bytes.lastIndexOf(FRAME_END);
    if (end >= 0) onFrame();
    for (const eventId of eventIdsIn(bytes.subarray(0, Math.max(0, end)))) times.set(eventId, nowMs);
    const isWhole = end >= 0 && bytes.length - end <= FRAME_END.length + CHUNK_END_LENGTH;
    rest = isWhole ? Buffer.alloc(0) : Buffer.from(bytes.subarray(Math.max(0, end)));
    return true;
  };
  const socket = connect({ host: hostname, port: Number(port), onread: { buffer: shared, callback } });
  const opened = new Promise<void>((resolve, reject) => {
    onFrame = resolve;
    socket.on("error", reject).on("close", () => reject(new Error("a stream was refused, or was closed")));
  });
  socket.write(`GET /v1/changes/stream?after=latest HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
  return { socket, opened };
}

function eventIdsIn(bytes: Buffer): string[] {
  const ids: string[] = [];
  for (let at = bytes.indexOf(EVENT_ID); at >= 0; at = bytes.indexOf(EVENT_ID, at)) {
    at += EVENT_ID.length;
    ids.push(bytes.toString("latin1", at, bytes.indexOf('"', at)));
  }
  return ids;
}

async function answer({ round, count }: CountOrder): Promise<StreamAnswer> {
  const giveUpMs = performance.now() + PATIENCE_MS;
  const ids = Array.from({ length: count }, (_, index) => `evt_${round}_${index}`);
  const isComplete = () => seen.every((times) => ids.every((id) => times.has(id)));
  while (!isComplete() && performance.now() < giveUpMs) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  return { atMs: seen.map((times) => Float64Array.from(ids, (id) => times.get(id) ?? 0)) };
}

process.on("message", (order: StreamOrder) => {
  const done = "base" in order ? open(order) : answer(order);
  void done.then((answered) => process.send?.(answered ?? "open"));
});
process.send?.("ready");
