import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { changeSchema } from "../../../src/changes/changeJson.ts";
import {
  compareTimes,
  createMirrorClient,
  fileStore,
  postgresStore,
  toDate,
  type Change,
  type ChangesOptions,
  type CursorStore,
  type FollowState,
} from "../../../src/client/mirrorClient.ts";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { makeLiveApply, makeObserver } from "../../support/mirror/liveApply.ts";
import { asPool } from "../../support/servers/database.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { startFaultProxy } from "../../support/faults/faultProxy.ts";
import { at, makeOrder, type OrderSketch } from "../../support/mirror/orders.ts";
import { makeRandom } from "../../support/faults/random.ts";
import { makeTestApi } from "../../support/mirror/served.ts";
import { serve } from "../../support/http/serve.ts";
import { emptying, prove } from "../../support/mirror/tables.ts";

const { pool, show } = await openLiveMirror();
const server = await serve(makeTestApi({ pool }));
const mirror = createMirrorClient({ baseUrl: server.url });
afterAll(() => server.close());
beforeEach(async () => {
  seconds = 0;
  await pool.query(emptying("orders history changes poll_state"));
});

/** Applies these states of orders as reads, in one batch. */
const see = (...orders: OrderSketch[]) => show(0n, orders);

let seconds = 0;
/** Changes these orders, each at its own instant. */
async function change(...numbers: number[]): Promise<void> {
  const orders = [...new Set(numbers)].map((number) => {
    seconds += 1;
    return { reference: `DO-${number}`, updatedAt: at(seconds), status: `status_${seconds}` };
  });
  await see(...orders);
}

const memoryStore = () => {
  const saved: { position?: string } = {};
  const store: CursorStore = {
    load: () => Promise.resolve(saved.position),
    save: async (position) => void (saved.position = position),
  };
  return { store, saved };
};

/** The first `count` changes. */
async function take(count: number, options: ChangesOptions = {}, client = mirror): Promise<Change[]> {
  const taken: Change[] = [];
  for await (const change of client.changes(options)) if (taken.push(change) === count) break;
  return taken;
}
const takeAll = (options: ChangesOptions = {}, client = mirror) =>
  take(Infinity, { follow: false, ...options }, client);
const brief = ({ reference, revision, verdict }: Change) => `${reference} ${revision} ${verdict}`;

/** Each order's revisions must be contiguous from the first one shown and end with the mirror's. */
async function expectExactlyOnce(seen: readonly Change[]): Promise<void> {
  const revisions = new Map<string, number>();
  for (const change of seen) {
    const first = change.verdict === "snapshot" ? change.revision : 1;
    const before = revisions.get(change.reference);
    const due = before === undefined ? first : before + 1;
    expect([change.reference, change.revision]).toEqual([change.reference, due]);
    revisions.set(change.reference, change.revision);
  }
  const { rows } = await pool.query<{ reference: string; revision: number }>(
    "select reference, revision from mirror.orders where gone_at is null",
  );
  expect(Object.fromEntries(revisions)).toEqual(
    Object.fromEntries(rows.map(({ reference, revision }) => [reference, revision])),
  );
}

describe("orders", () => {
  it("arrive one by one as plain objects, with the freshness of each page", async () => {
    const made = Array.from({ length: 5 }, (_, each) => ({ reference: `DO-${each}`, updatedAt: at(each) }));
    await see(...made);
    await prove(pool, "2026-03-01T09:00:00Z");
    const listed = [];
    for await (const order of mirror.orders({ limit: 2 })) listed.push(order);
    expect(listed).toEqual(made.map(makeOrder));
    const pages = [];
    for await (const page of mirror.orders({ limit: 2 }).pages()) pages.push(page);
    expect(pages.map(({ orders }) => orders.length)).toEqual([2, 2, 1]);
    expect(pages[2]).toEqual({ orders: [listed[4]], safeThrough: "2026-03-01T09:00:00Z", exceptions: 0 });
  });

  it("are read by seek: an order that changes meanwhile comes again, and none is missed", async () => {
    await change(...Array.from({ length: 30 }, (_, each) => each));
    const seen = new Map<string, string>();
    for await (const { reference, status } of mirror.orders({ limit: 5 })) {
      seen.set(reference, status);
      // Every offset after the first rows shifts.
      if (seen.size <= 20) await change(seen.size - 1);
    }
    expect(seen.size).toBe(30);
    expect(new Set(seen.values()).size).toBe(30);
  });
});

it("times are compared to the nanosecond in any offset, and convert to dates", () => {
  const times = ["10:00:00.000000002+01:00", "09:00:00Z", "09:00:00.000000001Z"].map(
    (each) => `2026-03-01T${each}`,
  );
  expect([...times].sort(compareTimes)).toEqual([times[1], times[2], times[0]]);
  expect(compareTimes("2026-03-01T10:00:00+01:00", times[1]!)).toBe(0);
  expect(toDate("2026-03-01T10:00:00.5+01:00")).toEqual(new Date("2026-03-01T09:00:00.500Z"));
});

it("one order is read by either of its identifiers, and awaited until it changes", async () => {
  await see({ reference: "A", updatedAt: at(1) });
  const { order, exceptions } = await mirror.order("shop-A");
  expect([order.reference, exceptions, "request_id" in order]).toEqual(["A", 0, false]);
  await expect(mirror.order("none")).rejects.toMatchObject({ failure: "not_found" });
  const changed = mirror.order("A", { updatedAfter: at(1), wait: 10 });
  await see({ reference: "A", updatedAt: at(2) });
  expect((await changed).order.updatedAt).toBe(at(2));
});

it("waits as long as it was asked to, beside the deadline of a request", async () => {
  await see({ reference: "A", updatedAt: at(1) });
  const hasty = createMirrorClient({ baseUrl: server.url, deadlineMs: 500 });
  const { order } = await hasty.order("A", { updatedAfter: at(1), wait: 1 });
  expect(order.updatedAt).toBe(at(1));
  const listing = hasty
    .orders({ complete: at(1), wait: 1 })
    .pages()
    .next();
  // With the mirror's own sentence, and worth another try later.
  await expect(listing).rejects.toMatchObject({
    code: "not_complete",
    status: 412,
    retry: "later",
    message: expect.stringContaining("Nothing of live is proved yet.") as string,
  });
});

it("takes an address with /v1, and says in the mirror's own words what is refused, and that nobody answers", async () => {
  const client = createMirrorClient({ baseUrl: `${server.url}/v1/` });
  await expect(client.orders({ status: "zz" }).pages().next()).rejects.toMatchObject({
    code: "invalid_request",
    message: expect.stringContaining("status must be one of created, ") as string,
  });
  const nobody = createMirrorClient({ baseUrl: `http://127.0.0.1:${await findFreePort()}` });
  await expect(nobody.order("A")).rejects.toMatchObject({
    failure: "unavailable",
    message: expect.stringContaining("(ECONNREFUSED)") as string,
  });
});

describe("changes", () => {
  it.each([true, false])("come with the time up to which they are complete (follow: %s)", async (follow) => {
    await change(1, 2);
    await prove(pool, at(5));
    const seen: string[] = [];
    const stop = new AbortController();
    const changes = mirror.changes({
      follow,
      signal: stop.signal,
      onComplete({ through, exceptions, position }) {
        seen.push(`complete ${through} ${exceptions}`);
        expect(position).toMatch(/\./);
        stop.abort();
      },
    });
    for await (const change of changes) seen.push(brief(change));
    expect(seen.slice(0, 2).sort()).toEqual(["DO-1 1 snapshot", "DO-2 1 snapshot"]);
    expect(seen[2]).toBe(`complete ${at(5)} 0`);
  });

  it("have no gap and no repetition when orders change while the snapshot is read", async () => {
    const numbers = Array.from({ length: 500 }, (_, each) => each);
    await change(...numbers);
    const seen: Change[] = [];
    const { store, saved } = memoryStore();
    for await (const each of mirror.changes({ store, follow: false })) {
      seen.push(each);
      expect(saved.position === undefined || each.verdict !== "snapshot").toBe(true);
      // Changes orders on pages already read, on the current page and on later ones, and adds new ones.
      if (seen.length % 50 === 1 && seen.length < 500) await change(3, 210, 480, 499, 600 + seen.length);
    }
    expect(seen.filter(({ verdict }) => verdict === "snapshot").length).toBeGreaterThanOrEqual(500);
    await expectExactlyOnce(seen);
    await change(3);
    expect((await takeAll({ store })).map(brief)).toEqual([expect.stringMatching(/^DO-3 \d+ applied$/)]);
  });

  it("continue from the stored position", async () => {
    const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-cursor-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const stores = [fileStore(path.join(folder, "cursor")), postgresStore(pool, "test")];
    for (const store of stores) {
      await takeAll({ store });
      await change(1);
      await change(2);
      await change(3);
      // The loop ends while the second change is being processed, so it comes again.
      expect((await take(2, { store })).map(({ reference }) => reference)).toEqual(["DO-1", "DO-2"]);
      expect((await takeAll({ store })).map(({ reference }) => reference)).toEqual(["DO-2", "DO-3"]);
      expect(await takeAll({ store })).toEqual([]);
    }
    expect(await postgresStore(pool, "another").load()).toBeUndefined();
    expect(await readFile(path.join(folder, "cursor"), "utf8")).toMatch(/^[0-9a-f]{12}\.\d+\.[0-9a-f]{8}\n$/);
  });

  it("are stored in a table that many readers may find missing at once, and that a login without rights to make it may use", async () => {
    for (let round = 0; round < 20; round += 1) {
      await pool.query("drop table if exists order_mirror_cursors");
      const readers = ["a", "b", "c", "d"].map((name) => postgresStore(pool, name).load());
      expect(await Promise.all(readers)).toEqual(readers.map(() => undefined));
    }
    await postgresStore(pool, "a").save("1");
    const client = await pool.connect();
    onTestFinished(() => client.release(true));
    await client.query(
      "begin; create role cursor_reader; grant all on order_mirror_cursors to cursor_reader; set local role cursor_reader",
    );
    expect(await postgresStore(client, "a").load()).toBe("1");
  });

  it("begin with the latest, and continue from there when the first change was not done with", async () => {
    await change(1);
    const options = { after: "latest", ...memoryStore() };
    expect(await takeAll(options)).toEqual([]);
    await change(2);
    // The loop ends while the first change is being processed, so it comes again.
    const [first] = await take(1, options);
    expect(Object.keys(first!).toSorted()).toEqual(Object.keys(changeSchema.shape).toSorted());
    expect((await takeAll(options)).map(brief)).toEqual(["DO-2 1 applied"]);
  });

  it("do not go back to states before the snapshot, which the feed has held back until then", async () => {
    const client = await pool.connect();
    onTestFinished(() => client.release(true));
    await client.query("begin");
    const late = makeObserver(asPool(client), makeLiveApply(asPool(client)));
    await late.show(0n, [{ reference: "DO-0", updatedAt: at(1) }]);
    await change(1);
    await change(1);
    const onState = ({ state }: FollowState) => {
      if (state === "following") void client.query("commit");
    };
    const seen: string[] = [];
    // A loop that waits for ever for DO-0 ends.
    for await (const each of mirror.changes({ onState, signal: AbortSignal.timeout(60_000) })) {
      seen.push(brief(each));
      if (each.reference === "DO-0") await change(1);
      if (seen.length === 3) break;
    }
    expect(seen).toEqual(["DO-1 2 snapshot", "DO-0 1 applied", "DO-1 3 applied"]);
  });

  it("end without an error when the signal aborts", async () => {
    await change(1);
    const stopping = new AbortController();
    const onState = ({ state }: FollowState) => state === "following" && stopping.abort();
    const seen = [];
    for await (const change of mirror.changes({ signal: stopping.signal, onState })) seen.push(brief(change));
    expect(seen).toEqual(["DO-1 1 snapshot"]);
    const ended = await takeAll({ signal: AbortSignal.abort() });
    expect(ended).toEqual([]);
  });

  it("begin with a new snapshot when the stored position was removed, and fail when an explicit one was", async () => {
    await change(1, 2);
    const { store, saved } = memoryStore();
    await takeAll({ store });
    await change(1);
    await pool.query(
      "update mirror.sources set removed_position = (select max(position) from mirror.changes)",
    );
    const lost = saved.position!;
    for (const follow of [false, true]) {
      saved.position = lost;
      const states: string[] = [];
      const onState = ({ state }: FollowState) => void states.push(state);
      const seen = await take(2, { store, follow, onState });
      expect(seen.map(brief).sort()).toEqual(["DO-1 2 snapshot", "DO-2 1 snapshot"]);
      expect(states).toContain("snapshot");
    }
    const refused = takeAll({ after: lost });
    await expect(refused).rejects.toMatchObject({ status: 410, code: "feed_restarted" });
  });

  it("are not requested again after a refusal, or from a server that is not a mirror", async () => {
    const gate = await serve(makeTestApi({ pool, apiTokens: [{ token: "t".repeat(16), sourceId: "live" }] }));
    onTestFinished(() => gate.close());
    const stranger = createMirrorClient({ baseUrl: gate.url, token: "wrong".repeat(4) });
    await expect(take(1, {}, stranger)).rejects.toMatchObject({ status: 401, code: "invalid_api_key" });
    await expect(take(1, { after: "beginning" }, stranger)).rejects.toMatchObject({ status: 401 });
    const other = await serve((_request, response) => void response.type("html").send("<p>hello"));
    onTestFinished(() => other.close());
    const lost = createMirrorClient({ baseUrl: other.url });
    await expect(take(1, {}, lost)).rejects.toMatchObject({ failure: "unreadable" });
    await expect(take(1, { after: "beginning" }, lost)).rejects.toMatchObject({ failure: "unreadable" });
  });
});

it("an unreliable connection loses and repeats no change", async () => {
  const random = makeRandom(1);
  const line = await startFaultProxy(server.port);
  onTestFinished(() => line.close());
  const client = createMirrorClient({ baseUrl: `http://127.0.0.1:${line.port}` });
  await change(0, 1, 2, 3);
  const stopping = new AbortController();
  const { store, saved } = memoryStore();
  const seen: Change[] = [];
  let [waits, open] = [0, 0];
  const onState = ({ state }: FollowState) => {
    if (state === "waiting") waits += 1;
    if (state === "following") open += 1;
  };
  const reading = (async () => {
    const options = { store, signal: stopping.signal, onState, silenceMaxMs: 1_000 };
    for await (const change of client.changes(options)) seen.push(change);
  })();
  const faults = [
    () => line.set({ resetAfterBytes: Math.floor(random() * 6_000) }),
    () => line.set({ refuses: true }),
    () => line.set({ silent: random() < 0.5 ? "both" : "answer" }),
  ];
  for (let step = 0; step < 12; step += 1) {
    faults[step % faults.length]!();
    for (let each = 0; each < 5; each += 1) await change(Math.floor(random() * 8), Math.floor(random() * 8));
    const awaited = random() < 0.7 ? open + 1 : 0;
    line.heal();
    await expect.poll(() => open).toBeGreaterThanOrEqual(awaited);
  }
  const { rows } = await pool.query<{ position: string }>(
    "select max(position) as position from mirror.changes",
  );
  await expect.poll(() => saved.position?.split(".")[1]).toBe(rows[0]?.position);
  stopping.abort();
  await reading;
  expect(waits).toBeGreaterThan(0);
  await expectExactlyOnce(seen);
});
