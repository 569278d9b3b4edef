import fc from "fast-check";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { IncomingEvent, StoredEvent } from "../../../src/receive/inbox.sql.ts";
import { makeGroupCommit } from "../../../src/receive/groupCommit.ts";

const LIMITS = {
  commitRowsMax: 3,
  commitBytesMax: 40,
  waitingRowsMax: 6,
  waitingBytesMax: 80,
  commitsInFlightMax: 2,
  pauseMaxMs: 2,
  pauseRowsMax: 3,
  deadlineMs: 2_000,
};
const OUTAGE = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
const REFUSED = Object.assign(new Error("no such source"), { code: "23503" });

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());

interface OpenCommit {
  readonly events: readonly IncomingEvent[];
  readonly end: (how: "stored" | "outage" | "refused") => void;
}

/** The group commit, a database that ends commits on demand, and the answers. */
class World {
  readonly open: OpenCommit[] = [];
  readonly stored = new Set<string>();
  readonly heard = new Map<string, "stored" | "refused">();
  /** The events that await their answer, with their bytes and the time when they were sent. */
  readonly waiting = new Map<string, { readonly bytes: number; readonly sentAtMs: number }>();
  asked = 0;
  nowMs = 0;
  heardTwice = 0;
  /** Events that were committed after their answer, in vain. */
  late = 0;
  readonly #store = makeGroupCommit({ insert: (events) => this.#insert(events), limits: LIMITS }).store;

  #insert(events: readonly IncomingEvent[]): Promise<StoredEvent[]> {
    this.late += events.filter(({ eventId }) => this.heard.has(eventId)).length;
    return new Promise((resolve, reject) => {
      const commit: OpenCommit = {
        events,
        end: (how) => {
          this.open.splice(this.open.indexOf(commit), 1);
          if (how !== "stored") return reject(how === "outage" ? OUTAGE : REFUSED);
          for (const { eventId } of events) this.stored.add(eventId);
          resolve(events.map(({ eventId }, index) => ({ index, seq: Number(eventId) })));
        },
      };
      this.open.push(commit);
    });
  }

  get waitingBytes(): number {
    return [...this.waiting.values()].reduce((sum, { bytes }) => sum + bytes, 0);
  }

  send(bytes: number): string {
    const eventId = String((this.asked += 1));
    this.waiting.set(eventId, { bytes, sentAtMs: this.nowMs });
    const [body, bodyHash] = [Buffer.alloc(bytes), Buffer.alloc(32)];
    void this.#store({ sourceId: "live", eventId, body, bodyHash, secretIndex: 0, headers: "{}" }).then(
      () => this.#hear(eventId, "stored"),
      () => this.#hear(eventId, "refused"),
    );
    return eventId;
  }

  pass(ms: number): void {
    vi.advanceTimersByTime(ms);
    this.nowMs += ms;
  }

  #hear(eventId: string, what: "stored" | "refused"): void {
    if (this.heard.has(eventId)) this.heardTwice += 1;
    this.heard.set(eventId, what);
    this.waiting.delete(eventId);
  }
}

/** Lets every promise settle that can, and checks the invariants at any moment. */
async function checkWorld(world: World): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
  const bytesOf = (events: readonly IncomingEvent[]) =>
    events.reduce((sum, { body }) => sum + body.length, 0);
  const ids = world.open.flatMap(({ events }) => events.map(({ eventId }) => eventId));
  const isHeld = {
    commits: world.open.length <= LIMITS.commitsInFlightMax && new Set(ids).size === ids.length,
    rows: world.open.every(({ events }) => events.length <= LIMITS.commitRowsMax),
    bytes: world.open.every(({ events }) => events.length === 1 || bytesOf(events) <= LIMITS.commitBytesMax),
    // The central promise: no sender hears "stored" of an event that is not.
    promise: [...world.heard].every(([eventId, what]) => what === "refused" || world.stored.has(eventId)),
    once: world.heardTwice === 0 && world.late === 0,
    deadline: [...world.waiting.values()].every(({ sentAtMs }) => world.nowMs - sentAtMs < LIMITS.deadlineMs),
  };
  expect(Object.entries(isHeld).filter(([, holds]) => !holds)).toEqual([]);
}

type Model = Record<never, never>;
const command = (name: string, run: (world: World) => Promise<void>): fc.AsyncCommand<Model, World> => ({
  check: () => true,
  run: async (_model, world) => run(world),
  toString: () => name,
});

/** An event beyond the rows or bytes that may wait is refused at once, and no other. */
const send = (bytes: number) =>
  command(`send ${bytes}`, async (world) => {
    const { waiting, waitingBytes } = world;
    const isFull = waiting.size >= LIMITS.waitingRowsMax || waitingBytes + bytes > LIMITS.waitingBytesMax;
    const eventId = world.send(bytes);
    await checkWorld(world);
    expect(world.heard.get(eventId)).toBe(isFull ? "refused" : undefined);
  });

/** Of several events that are refused together, none is answered: each is tried by itself. */
const end = (place: number, how: "stored" | "outage" | "refused") =>
  command(`commit ${place} ends: ${how}`, async (world) => {
    const commit = world.open[place];
    const before = world.heard.size;
    commit?.end(how);
    await checkWorld(world);
    if (how === "refused" && (commit?.events.length ?? 0) > 1) expect(world.heard.size).toBe(before);
  });

const pass = (ms: number) =>
  command(`${ms} ms pass`, async (world) => {
    world.pass(ms);
    await checkWorld(world);
  });

const sending = fc.integer({ min: 1, max: 60 }).map(send);
const ending = fc.tuple(fc.nat(1), fc.constantFrom("stored", "stored", "outage", "refused"));
const commands = fc.commands(
  [
    sending,
    sending,
    ending.map(([place, how]) => end(place, how)),
    fc.integer({ min: 1, max: 2_500 }).map(pass),
  ],
  { maxCommands: 60, size: "max" },
);

it("reports only stored events as stored, keeps its limits, and answers each once, in any sequence of events", async () => {
  await fc.assert(
    fc.asyncProperty(commands, async (sequence) => {
      const world = new World();
      await fc.asyncModelRun(() => ({ model: {}, real: world }), sequence);
      do {
        world.open[0]?.end("stored");
        world.pass(LIMITS.pauseMaxMs);
        await checkWorld(world);
      } while (world.open.length > 0);
      expect(world.heard.size).toBe(world.asked);
    }),
    { numRuns: 40 },
  );
});
