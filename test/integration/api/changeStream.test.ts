import express from "express";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Decision } from "../../../src/apply/applySubjects.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import type { Snapshot } from "../../../src/domain/order/order.ts";
import type { Pool } from "../../../src/database/database.ts";
import { makeAuthenticate } from "../../../src/api/authenticate.ts";
import { listenForAnnouncements, makeAnnouncer } from "../../../src/changes/announcements.ts";
import { makeStreamChanges, type StreamDeps } from "../../../src/api/changeRoutes.ts";
import { LOOK_MS, makeNews, type News } from "../../../src/api/news.ts";
import { makeErrorAnswer, stampAnswer } from "../../../src/api/respond.ts";
import { systemClock, type Clock } from "../../../src/process/clock.ts";
import { makeLogger, silentLogger, type Logger } from "../../../src/process/telemetry/logger.ts";
import { readSnapshot } from "../../../src/wire/order.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { at, makeSnapshot, readAt, type OrderSketch } from "../../support/mirror/orders.ts";
import { serve, type TestServer } from "../../support/http/serve.ts";
import { emptying } from "../../support/mirror/tables.ts";

const common = { clock: systemClock, logger: silentLogger };

const { database, pool } = await openLiveMirror({ statementTimeoutMs: 10_000 });
const closes: (() => Promise<unknown>)[] = [];
beforeEach(async () => {
  await pool.query(
    emptying("orders history changes", { restartsIdentity: true }) + "; delete from mirror.poll_state",
  );
});
afterEach(async () => {
  for (const close of closes.splice(0).reverse()) await close();
});

async function startServer(
  limits: StreamDeps["limits"] = {},
  {
    reads = pool,
    logger = silentLogger,
    apiTokens = [],
    clock = systemClock,
  }: { reads?: Pool; logger?: Logger; clock?: Clock; apiTokens?: { token: string; sourceId: string }[] } = {},
): Promise<{ server: TestServer; news: News }> {
  const news = makeNews(clock);
  const authenticate = makeAuthenticate({
    sources: [{ sourceId: "live" }],
    apiTokens,
    localTrust: true,
    ...common,
  });
  const router = express.Router().use(stampAnswer);
  router.get("/stream", makeStreamChanges({ pool: reads, news, authenticate, limits, logger }));
  router.use(makeErrorAnswer(silentLogger));
  const server = await serve(router);
  closes.push(
    () => server.close(),
    () => news.close(),
  );
  return { server, news };
}

async function openStream(server: TestServer, query = "", headers: Record<string, string> = {}) {
  const abort = new AbortController();
  const response = await fetch(`${server.url}/stream${query}`, { headers, signal: abort.signal });
  closes.push(async () => abort.abort());
  const events = response.ok ? readEventStream(response) : undefined;
  const next = async () => (await events!.next()).value as StreamedEvent | undefined;
  return { response, next, abort };
}

/** On other connections than those of the streams, which a test closes. */
const apply = makeLiveApply(database.pool);
const seeSnapshots = (snapshots: readonly Snapshot[]) =>
  apply.applyReads({ sourceId: "live", via: "poll", snapshots, time: readAt(parseInstant(at(10_000))) });
const see = (...orders: OrderSketch[]) => seeSnapshots(orders.map(makeSnapshot));
const prove = (through: string) =>
  pool.query(
    "insert into mirror.poll_state (source_id, safe_through) values ('live', $1) on conflict (source_id) do update set safe_through = excluded.safe_through",
    [parseInstant(through)],
  );
const referenceOf = (event: StreamedEvent | undefined) =>
  (JSON.parse(event!.data!) as { reference: string }).reference;

describe("a stream of changes", () => {
  it("sends existing changes, then new ones, and resumes after the last id", async () => {
    await see({ reference: "A", updatedAt: at(1) });
    const { server } = await startServer();
    const { response, next, abort } = await openStream(server);
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(response.headers.get("cache-control")).toBe("no-cache, no-transform");
    expect(response.headers.get("x-accel-buffering")).toBe("no");
    expect(await next()).toMatchObject({ retry: "3000", data: undefined });
    const first = await next();
    expect(first).toMatchObject({ event: "change" });
    expect(referenceOf(first)).toBe("A");
    await see({ reference: "B", updatedAt: at(1) });
    const second = await next();
    expect(referenceOf(second)).toBe("B");
    expect(JSON.parse(second!.data!)).toMatchObject({ position: second!.id, revision: 1, before: null });
    abort.abort();
    await see({ reference: "C", updatedAt: at(1) });
    const again = await openStream(server, "?after=latest", { "last-event-id": second!.id! });
    await again.next();
    expect(referenceOf(await again.next())).toBe("C");
  });

  it("sends an id immediately, so that a client that has seen nothing resumes where it began", async () => {
    await see({ reference: "A", updatedAt: at(1) });
    const { server } = await startServer();
    const { next, abort } = await openStream(server, "?after=latest");
    const opening = await next();
    expect(opening!.id).toMatch(/^[0-9a-f]{12}\.\d+\.[0-9a-f]{8}$/);
    abort.abort();
    await see({ reference: "B", updatedAt: at(1) });
    const again = await openStream(server, "", { "last-event-id": opening!.id! });
    await again.next();
    expect(referenceOf(await again.next())).toBe("B");
  });

  it("carries orders with line breaks, which the client joins again", async () => {
    const raw = `{ "reference":"A",\r\n\n "updatedAt":"${at(1)}" }`;
    await seeSnapshots([readSnapshot(raw, JSON.parse(raw))]);
    const { server } = await startServer();
    const { next } = await openStream(server);
    await next();
    expect(JSON.parse((await next())!.data!)).toMatchObject({ after: { reference: "A", updatedAt: at(1) } });
  });

  it("says up to when every change has been sent, once for each proof, also to a reader that resumes", async () => {
    await see({ reference: "A", updatedAt: at(1) });
    await prove(at(2));
    const { server } = await startServer();
    const { next, abort } = await openStream(server);
    await next();
    const change = await next();
    expect(referenceOf(change)).toBe("A");
    const record = { event: "complete", id: change!.id };
    const first = await next();
    expect(first).toMatchObject(record);
    expect(JSON.parse(first!.data!)).toEqual({ position: change!.id, through: at(2), exceptions: 0 });
    await prove(at(3));
    expect(JSON.parse((await next())!.data!)).toMatchObject({ through: at(3) });
    // A proof is withdrawn.
    await prove(at(1));
    expect(JSON.parse((await next())!.data!)).toMatchObject({ through: at(1) });
    await see({ reference: "B", updatedAt: at(4) });
    expect(referenceOf(await next())).toBe("B");
    abort.abort();
    const again = await openStream(server, "", { "last-event-id": change!.id! });
    await again.next();
    expect(referenceOf(await again.next())).toBe("B");
    expect(JSON.parse((await again.next())!.data!)).toMatchObject({ through: at(1) });
  });

  it("says that every change was sent only behind the last of several sections", async () => {
    const count = 250;
    await see(...Array.from({ length: count }, (_, n) => ({ reference: `R${n}`, updatedAt: at(1) })));
    await prove(at(2));
    const { server } = await startServer();
    const { next } = await openStream(server);
    await next();
    const events = [];
    for (let n = 0; n <= count; n += 1) events.push((await next())!.event);
    expect(events).toEqual([...Array<string>(count).fill("change"), "complete"]);
  });

  it("sends heartbeats while nothing happens", async () => {
    const { server } = await startServer({ heartbeatMs: 20 });
    const { next } = await openStream(server);
    await next();
    expect(await next()).toMatchObject({ comment: "heartbeat", id: undefined, data: undefined });
    expect(await next()).toMatchObject({ comment: "heartbeat" });
  });

  it("refuses an invalid position before it begins", async () => {
    const { server } = await startServer();
    expect((await openStream(server, "?after=000000000000.1.00000001")).response.status).toBe(410);
    const { response } = await openStream(server, "", { "last-event-id": "x" });
    expect(response.status).toBe(422);
    expect(await response.json()).toMatchObject({
      error: { message: "Last-Event-ID must be a position from an answer, or latest." },
    });
  });

  it("ends when its position is lost without notice, and the position is then refused", async () => {
    for (const reference of ["A", "B"]) await see({ reference, updatedAt: at(1) });
    const { server } = await startServer();
    const { next } = await openStream(server);
    await next();
    await next();
    const { id } = (await next())!;
    await pool.query("delete from mirror.changes where reference = 'B'");
    await expect(next()).rejects.toThrow(/terminated/);
    expect((await openStream(server, "", { "last-event-id": id! })).response.status).toBe(410);
  });

  it("is refused beyond the cap, and accepted again when another stream has ended", async () => {
    const { server } = await startServer({ streamsMax: 4 });
    const first = await openStream(server);
    const second = await openStream(server);
    const third = await openStream(server);
    expect([first, second, third].map(({ response }) => response.status)).toEqual([200, 200, 503]);
    expect(third.response.headers.get("retry-after")).toBe("30");
    expect(await third.response.json()).toMatchObject({ error: { code: "too_many_streams" } });
    first.abort.abort();
    await vi.waitFor(async () => expect((await openStream(server)).response.status).toBe(200), 60_000);
  });

  it("disconnects a client that reads nothing, buffers little for it, and lets it resume", async () => {
    const count = 300;
    for (let n = 0; n < count; n += 20) {
      const more = { note: "x".repeat(100_000) };
      await see(
        ...Array.from({ length: 20 }, (_, m) => ({ reference: `R${n + m}`, updatedAt: at(1), more })),
      );
    }
    const lines: string[] = [];
    const destination = { write: (line: string) => void lines.push(line) };
    const logger = makeLogger({ level: "info", format: "json", service: "test", destination });
    const { server } = await startServer({ stalledMs: 300 }, { logger });
    const slow = await openStream(server);
    await slow.next();
    const first = await slow.next();
    // 30 MB do not fit into the network buffers, so the server notices that the client does not read.
    await vi.waitFor(() => expect(lines.join("")).toContain("its client took nothing for too long"), 60_000);
    const readOn = async () => {
      for (let seen = 1; seen < count; seen += 1) await slow.next();
    };
    await expect(readOn()).rejects.toThrow(/terminated/);
    // Uses another server: on a busy machine this client may also read nothing for 300 ms.
    const { server: patient } = await startServer();
    const again = await openStream(patient, "", { "last-event-id": first!.id! });
    await again.next();
    const references = new Set<string>([referenceOf(first)]);
    while (references.size < count) references.add(referenceOf(await again.next()));
    expect(references.size).toBe(count);
  });

  it("ends for all clients when the process closes", async () => {
    const { server, news } = await startServer();
    const streams = await Promise.all([openStream(server), openStream(server, "?after=latest")]);
    for (const { next } of streams) await next();
    await news.close();
    for (const { next } of streams) expect(await next()).toBeUndefined();
    await server.close();
  });
});

describe("many streams", () => {
  /** The table is queried only when something was announced. */
  const lookless: Clock = {
    ...systemClock,
    sleep: (ms, signal) => systemClock.sleep(ms === LOOK_MS ? 600_000 : ms, signal),
  };

  it("share one query of the table, and each receives every change", async () => {
    let looks = 0;
    const counting = new Proxy(pool, {
      get(target, name) {
        if (name !== "query") return Reflect.get(target, name) as unknown;
        return (query: { name?: string }, values?: unknown[]) => {
          if (query.name === "read-changes") looks += 1;
          return target.query(query as string, values);
        };
      },
    });
    const { server, news } = await startServer({}, { reads: counting, clock: lookless });
    const streams = await Promise.all(Array.from({ length: 40 }, () => openStream(server, "?after=latest")));
    for (const { next } of streams) await next();
    let round = 0;
    // Streams that have only just begun may be a look behind, and query for themselves.
    await vi.waitFor(async () => {
      const before = looks;
      const reference = `R${(round += 1)}`;
      await see({ reference, updatedAt: at(1) });
      news.announce();
      for (const { next } of streams) expect(referenceOf(await next())).toBe(reference);
      expect(looks - before).toBeLessThanOrEqual(3);
    }, 60_000);
  });

  it("show a change when it is announced, without waiting for the next query", async () => {
    const { server, news } = await startServer({}, { clock: lookless });
    let announced = 0;
    const listener = listenForAnnouncements({
      ...common,
      databaseUrl: database.url,
      onChanges() {
        announced += 1;
        news.announce();
      },
    });
    const announcer = makeAnnouncer({ pool, clock: systemClock });
    closes.push(
      () => listener.close(),
      () => announcer.close(),
    );
    const { next } = await openStream(server, "?after=latest");
    await next();
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
    await next();
    await database.pool.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'order-mirror test'",
    );
    await see({ reference: "A", updatedAt: at(1) });
    expect(referenceOf(await next())).toBe("A");
  });
});

/** One server-sent event, or the id that came without one. */
interface StreamedEvent {
  readonly id: string | undefined;
  readonly event: string | undefined;
  readonly data: string | undefined;
  readonly comment: string | undefined;
  readonly retry: string | undefined;
}

/** Reads server-sent events as they arrive, according to the HTML standard: blocks of lines, data lines joined. */
async function* readEventStream(response: Response): AsyncGenerator<StreamedEvent> {
  if (response.body === null) throw new TypeError("the response has no body");
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of response.body) {
    text += decoder.decode(chunk as Uint8Array, { stream: true });
    const blocks = text.split("\n\n");
    text = blocks.pop() ?? "";
    for (const block of blocks) yield parseBlock(block);
  }
}

function parseBlock(block: string): StreamedEvent {
  const values = (name: string) =>
    block
      .split("\n")
      .flatMap((line) =>
        line.startsWith(`${name}:`) ? [line.slice(name.length + 1).replace(/^ /, "")] : [],
      );
  const data = values("data");
  return {
    id: values("id").at(-1),
    event: values("event").at(-1),
    data: data.length === 0 ? undefined : data.join("\n"),
    comment: values("").at(-1),
    retry: values("retry").at(-1),
  };
}
