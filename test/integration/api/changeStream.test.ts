import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Decision } from "../../../src/apply/applySubjects.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import type { Snapshot } from "../../../src/domain/order/order.ts";
import { listenForAnnouncements, makeAnnouncer } from "../../../src/changes/announcements.ts";
import type { StreamDeps } from "../../../src/api/changeRoutes.ts";
import { LOOK_MS, makeNews } from "../../../src/api/news.ts";
import { systemClock, type Clock } from "../../../src/process/clock.ts";
import { silentLogger, type Logger } from "../../../src/process/telemetry/logger.ts";
import { readSnapshot } from "../../../src/wire/order.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { addSource, at, makeSnapshot, readAt, type OrderSketch } from "../../support/mirror/orders.ts";
import { makeTestApi } from "../../support/mirror/served.ts";
import { makeHead, openRaw } from "../../support/http/rawHttp.ts";
import { serve, type TestServer } from "../../support/http/serve.ts";
import { emptying, prove } from "../../support/mirror/tables.ts";
import { logInto } from "../../support/run/logInto.ts";

const { database, pool } = await openLiveMirror({ statementTimeoutMs: 60_000 });
await addSource(pool, "test", "test");
const closes: (() => Promise<unknown>)[] = [];
beforeEach(async () => {
  await pool.query(
    emptying("orders history changes", { restartsIdentity: true }) + "; delete from mirror.poll_state",
  );
});
afterEach(async () => {
  for (const close of closes.splice(0).reverse()) await close();
});

/** With this clock the table is queried only when something was announced. */
const lookless: Clock = {
  ...systemClock,
  sleep: (ms, signal) => systemClock.sleep(ms === LOOK_MS ? 600_000 : ms, signal),
};

async function startServer({
  limits = {},
  logger = silentLogger,
  clock = systemClock,
}: { limits?: StreamDeps["limits"]; logger?: Logger; clock?: Clock } = {}) {
  const news = makeNews(clock);
  const server = await serve(makeTestApi({ pool, news, limits, logger }));
  closes.push(
    () => server.close(),
    () => news.close(),
  );
  return { server, news };
}

const PATH = "/v1/changes/stream";

async function openStream(server: TestServer, query = "", headers: Record<string, string> = {}) {
  const abort = new AbortController();
  const response = await fetch(server.url + PATH + query, { headers, signal: abort.signal });
  closes.push(async () => abort.abort());
  const events = response.ok ? readEventStream(response) : undefined;
  const next = async () => (await events!.next()).value as StreamedEvent | undefined;
  /** The block with which each stream begins. */
  const opening = events && (await next());
  return { response, opening, next, abort };
}

/** On other connections than those of the streams, which a test closes. */
const apply = makeLiveApply(database.pool);
const seeSnapshots = (snapshots: readonly Snapshot[]) =>
  apply.applyReads({ sourceId: "live", via: "poll", snapshots, time: readAt(parseInstant(at(10_000))) });
const see = (...orders: OrderSketch[]) => seeSnapshots(orders.map(makeSnapshot));
const referenceOf = (event: StreamedEvent | undefined) =>
  (JSON.parse(event!.data!) as { reference: string }).reference;

describe("a stream of changes", () => {
  it("sends existing changes, then new ones, and resumes after the last id, also after that of its beginning", async () => {
    // The client joins the lines of an order again.
    const raw = `{ "reference":"A",\r\n\n "updatedAt":"${at(1)}" }`;
    await seeSnapshots([readSnapshot(raw, JSON.parse(raw))]);
    const { server } = await startServer();
    const { response, opening, next, abort } = await openStream(server);
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(response.headers.get("cache-control")).toBe("no-cache, no-transform");
    expect(response.headers.get("x-accel-buffering")).toBe("no");
    expect(opening).toEqual({ retry: "3000", id: expect.stringMatching(/^[0-9a-f]{12}\.0$/) as string });
    const first = await next();
    expect([first?.event, referenceOf(first)]).toEqual(["change", "A"]);
    const later = await openStream(server, "?after=latest");
    await see({ reference: "B", updatedAt: at(1) });
    const second = await next();
    expect(JSON.parse(second!.data!)).toMatchObject({ position: second!.id, reference: "B", before: null });
    abort.abort();
    later.abort.abort();
    await see({ reference: "C", updatedAt: at(1) });
    for (const [id, reference] of [
      [second?.id, "C"],
      [later.opening?.id, "B"],
    ] as const) {
      const again = await openStream(server, "?after=latest", { "last-event-id": id! });
      expect(referenceOf(await again.next())).toBe(reference);
    }
  });

  it("says up to when every change has been sent, once for each proof, also to a reader that resumes", async () => {
    await see({ reference: "A", updatedAt: at(1) });
    await prove(pool, at(2));
    const { server } = await startServer();
    const { next, abort } = await openStream(server);
    const change = await next();
    const first = await next();
    expect(first).toMatchObject({ event: "complete", id: change!.id });
    expect(JSON.parse(first!.data!)).toEqual({ position: change!.id, through: at(2), exceptions: 0 });
    // The second time, a proof is withdrawn.
    for (const through of [at(3), at(1)]) {
      await prove(pool, through);
      expect(JSON.parse((await next())!.data!)).toMatchObject({ through });
    }
    await see({ reference: "B", updatedAt: at(4) });
    expect(referenceOf(await next())).toBe("B");
    abort.abort();
    const again = await openStream(server, "", { "last-event-id": change!.id! });
    expect(referenceOf(await again.next())).toBe("B");
    expect(JSON.parse((await again.next())!.data!)).toMatchObject({ through: at(1) });
  });

  it("sends several sections without a pause, and says only behind the last that every change was sent", async () => {
    const count = 250;
    await see(...Array.from({ length: count }, (_, n) => ({ reference: `R${n}`, updatedAt: at(1) })));
    await prove(pool, at(2));
    const { server } = await startServer({ clock: lookless });
    const { next } = await openStream(server);
    const events = [];
    for (let n = 0; n <= count; n += 1) events.push((await next())!.event);
    expect(events).toEqual([...Array<string>(count).fill("change"), "complete"]);
  });

  it("sends heartbeats while nothing happens", async () => {
    const { server } = await startServer({ limits: { heartbeatMs: 20 } });
    const { next } = await openStream(server);
    for (let beat = 0; beat < 2; beat += 1) expect(await next()).toEqual({ comment: "heartbeat" });
  });

  it("ends when its position is lost without notice, and the position is then refused", async () => {
    await see(...["A", "B"].map((reference) => ({ reference, updatedAt: at(1) })));
    const { server } = await startServer();
    const { next } = await openStream(server);
    await next();
    const { id } = (await next())!;
    await pool.query("delete from mirror.changes where reference = 'B'");
    await expect(next()).rejects.toThrow(/terminated/);
    const again = async (lastId: string) =>
      (await openStream(server, "", { "last-event-id": lastId })).response;
    expect((await again(id!)).status).toBe(410);
    expect(await (await again("x")).json()).toMatchObject({
      error: { message: "Last-Event-ID must be a position from an answer, or latest." },
    });
  });

  it("is refused beyond the cap, and accepted again when another stream has ended", async () => {
    const { server } = await startServer({ limits: { streamsMax: 4 } });
    const [first, , third] = [await openStream(server), await openStream(server), await openStream(server)];
    expect([third.response.status, third.response.headers.get("retry-after")]).toEqual([503, "30"]);
    expect(await third.response.json()).toMatchObject({ error: { code: "too_many_streams" } });
    first.abort.abort();
    await vi.waitFor(async () => expect((await openStream(server)).response.status).toBe(200), 60_000);
  });

  it("disconnects a client that reads nothing", async () => {
    // 20 MB do not fit into the network buffers.
    const more = { note: "x".repeat(1_000_000) };
    for (let n = 0; n < 20; n += 1) await see({ reference: `R${n}`, updatedAt: at(1), more });
    const lines: string[] = [];
    const logger = logInto((line) => lines.push(line), "info");
    const { server } = await startServer({ limits: { stalledMs: 300 }, logger });
    const client = await openRaw(server.port, { reads: false });
    closes.push(async () => client.abort());
    client.write(makeHead(`GET ${PATH}`, []));
    await vi.waitFor(() => expect(lines.join("")).toContain("its client took nothing for too long"), 60_000);
  });

  it("ends for all clients when the process closes", async () => {
    const { server, news } = await startServer();
    const streams = [await openStream(server), await openStream(server, "?after=latest")];
    await news.close();
    for (const { next } of streams) expect(await next()).toBeUndefined();
  });
});

describe("many streams", () => {
  it("share one query of the table, and each receives every change of its source and no other", async () => {
    const query = vi.spyOn(pool, "query");
    const countLooks = () =>
      query.mock.calls.filter(([asked]) => (asked as { name?: string }).name === "read-changes").length;
    const { server, news } = await startServer({ clock: lookless });
    const streams = await Promise.all(Array.from({ length: 40 }, () => openStream(server, "?after=latest")));
    const other = await openStream(server, "?after=latest", { "x-source": "test" });
    expect(other.opening?.id).toBe(streams[0]?.opening?.id);
    let round = 0;
    // Streams that have only just begun may be a look behind, and query for themselves.
    await vi.waitFor(async () => {
      const before = countLooks();
      const reference = `R${(round += 1)}`;
      await see({ reference, updatedAt: at(1) });
      news.announce();
      for (const { next } of streams) expect(referenceOf(await next())).toBe(reference);
      expect(countLooks() - before).toBeLessThanOrEqual(4);
    }, 60_000);
    const snapshots = [makeSnapshot({ reference: "T", updatedAt: at(1) })];
    const time = readAt(parseInstant(at(10_000)));
    await makeLiveApply(pool, "test").applyReads({ sourceId: "test", via: "poll", snapshots, time });
    news.announce();
    expect(referenceOf(await other.next())).toBe("T");
  });

  it("show a change when it is announced, without waiting for the next query", async () => {
    const { server, news } = await startServer({ clock: lookless });
    let announced = 0;
    const listener = listenForAnnouncements({
      databaseUrl: database.url,
      onChanges() {
        announced += 1;
        news.announce();
      },
      clock: systemClock,
      logger: silentLogger,
    });
    const announcer = makeAnnouncer({ pool, clock: systemClock });
    closes.push(
      () => listener.close(),
      () => announcer.close(),
    );
    const { next } = await openStream(server, "?after=latest");
    await vi.waitFor(() => {
      announcer.announce([{ verdict: "applied" } as Decision]);
      expect(announced).toBeGreaterThan(0);
    }, 60_000);
    for (const reference of ["A", "B", "C"]) {
      announcer.announce(await see({ reference, updatedAt: at(1) }));
      expect(referenceOf(await next())).toBe(reference);
    }
  });

  it("resume after the database closed its connections", async () => {
    const { server } = await startServer();
    const { next } = await openStream(server, "?after=latest");
    await database.pool.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'order-mirror test'",
    );
    await see({ reference: "A", updatedAt: at(1) });
    expect(referenceOf(await next())).toBe("A");
  });
});

type StreamedEvent = Partial<Record<"id" | "event" | "data" | "comment" | "retry", string>>;

/** Reads server-sent events as they arrive, and ids that come alone, by the HTML standard: blocks of lines, data lines joined. */
async function* readEventStream({ body }: Response): AsyncGenerator<StreamedEvent> {
  let text = "";
  for await (const chunk of body!.pipeThrough(new TextDecoderStream())) {
    const blocks = (text + chunk).split("\n\n");
    text = blocks.pop() ?? "";
    yield* blocks.map(parseBlock);
  }
}

function parseBlock(block: string): StreamedEvent {
  const event: Record<string, string> = {};
  for (const line of block.split("\n")) {
    const [, name = "", value = ""] = /^(\w*): ?([^]*)$/.exec(line) ?? [];
    event[name || "comment"] = name in event ? `${event[name]}\n${value}` : value;
  }
  return event;
}
