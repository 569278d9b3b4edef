import { request } from "node:http";
import type { IncomingMessage } from "node:http";

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

/** For each reader, when it received each event. */
const seen: Map<string, number>[] = [];
let closeAll: () => void = () => undefined;

/** Reopens the streams; resolves when every reader has its first bytes. */
async function open({ base, readers }: OpenOrder): Promise<void> {
  closeAll();
  const requests = Array.from({ length: readers }, () =>
    request(`${base}/v1/changes/stream?after=latest`, { agent: false }),
  );
  closeAll = () => requests.forEach((each) => each.destroy());
  await Promise.all(
    requests.map(async (each, reader) => {
      const response = await new Promise<IncomingMessage>((resolve, reject) => {
        each.on("response", resolve).on("error", reject).end();
      });
      if (response.statusCode !== 200) throw new Error(`a stream was answered with ${response.statusCode}`);
      const times = new Map<string, number>();
      seen[reader] = times;
      await new Promise<void>((resolve) => follow(response, times, resolve));
    }),
  );
}

/** Searches bytes: decoding each chunk for a pattern would delay what the next readers receive, whose machine this is, too. */
function follow(response: IncomingMessage, times: Map<string, number>, onBytes: () => void): void {
  let rest: Buffer = Buffer.alloc(0);
  response.on("error", () => undefined);
  response.on("data", (chunk: Buffer) => {
    onBytes();
    const nowMs = performance.timeOrigin + performance.now();
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    const end = bytes.lastIndexOf("\n\n") + 2;
    for (const eventId of eventIdsIn(bytes.subarray(0, end < 2 ? 0 : end))) {
      times.set(eventId, nowMs);
    }
    rest = end < 2 ? bytes : bytes.subarray(end);
  });
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
