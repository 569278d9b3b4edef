import { onTestFinished, vi } from "vitest";
import { makePool, type Pool } from "../../../src/database/database.ts";
import { makePoller } from "../../../src/poll/poller.ts";
import type { PollDeps } from "../../../src/poll/pollDeps.ts";
import { makeBudget } from "../../../src/provider/budget.ts";
import { makeProviderClient } from "../../../src/provider/client.ts";
import type { Clock } from "../../../src/process/clock.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { startSandbox, type SandboxOptions } from "../../../src/sandbox/startSandbox.ts";
import { makeTestDatabase } from "../servers/database.ts";
import { makeLiveApply } from "../mirror/liveApply.ts";
import { addSource, putIntoInbox } from "../mirror/orders.ts";
import { makeSimulatedClock } from "./simulatedClock.ts";
import { LIVE, receiveEvents, SANDBOX_SECRET, speakTo } from "../providers/testSandbox.ts";

/** A request of a poller to the provider, at a virtual time. */
interface SentRequest {
  readonly atMs: number;
  readonly url: URL;
  readonly status: number;
}

/** A good answer of the provider to a poller, and what becomes of it on its way; undefined leaves it as it is. */
export interface Answer {
  readonly url: URL;
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
}
export type Spoil = (
  good: Answer,
) => { status?: number; headers?: Record<string, string>; body?: string } | undefined;

/** Makes the `Date` of every answer wrong by so much; what the orders say stays right. */
export const withClockOff =
  (seconds: number): Spoil =>
  ({ headers }) => {
    const date = Date.parse(headers.get("date") ?? "") + seconds * 1_000;
    return { headers: { date: new Date(date).toUTCString() } };
  };

export type VirtualWorld = Awaited<ReturnType<typeof startVirtualWorld>>;

export const CLOCK_START = 1_790_000_000n * 1_000_000_000n;
/** Code that is about to send its next request takes a few turns of the event loop to get there. */
const QUIET_TURNS = 5;

/** Sandbox, Postgres and pollers in one virtual time: an hour passes as fast as its requests are answered. */
export async function startVirtualWorld(options: Partial<SandboxOptions> = {}) {
  const database = await makeTestDatabase();
  const provider = await makeTestDatabase();
  const closePool: { close?: () => Promise<void> } = {};
  const sandbox = await startSandbox({
    databaseUrl: provider.url,
    port: 0,
    seed: 1,
    speed: 0,
    rateWindow: "sliding",
    clock: "virtual",
    clockStart: CLOCK_START,
    ...options,
  });
  onTestFinished(async () => {
    await closePool.close?.();
    await sandbox.close();
    await provider.drop();
    await database.drop();
  });
  await makeClockVirtual(database.pool);
  await provider.pool.query(`
    create table public.first_changes (reference text primary key, updated_at bigint not null);
    create function public.note_first_change() returns trigger language plpgsql as $$ begin
      if new.livemode then
        insert into public.first_changes values (new.reference, new.updated_at) on conflict do nothing;
      end if;
      return null;
    end $$;
    create trigger note_first_change after insert or update on sandbox.orders
      for each row execute function public.note_first_change()`);
  const traffic = makeTraffic();
  const clock = makeSimulatedClock(CLOCK_START, {
    rest: () => traffic.rest(),
    async move(nowMs) {
      const instant = CLOCK_START + BigInt(Math.round(nowMs * 1e6));
      await database.pool.query("select setval('virtual.micros', $1)", [instant / 1_000n]);
      const behindMs = Number(instant - sandbox.now()) / 1e6;
      if (behindMs > 0) await sandbox.advance(behindMs);
    },
  });
  const sent: SentRequest[] = [];
  let spoil: Spoil = () => undefined;
  watchFetch(traffic, (good) => {
    const bad = good.status === 200 ? spoil(good) : undefined;
    const answer = {
      ...good,
      ...bad,
      headers: new Headers({ ...Object.fromEntries(good.headers), ...bad?.headers }),
    };
    sent.push({ atMs: clock.monotonicMs(), url: good.url, status: answer.status });
    return answer;
  });
  const plainPool = makePool({ url: database.url, purpose: "poll", max: 6, statementTimeoutMs: 60_000 });
  closePool.close = () => plainPool.end();
  const pool = watchPool(traffic, plainPool);
  await addSource(pool, "live");
  const apply = makeLiveApply(pool);
  /** Starts a poller as it starts by default: every 30 s, with a margin of 300 s. */
  const startPoller = (holder: string, more: Partial<PollDeps> = {}) => {
    const { clock: own, ...life } = makeMortalClock(clock);
    const client = makeProviderClient({
      baseUrl: sandbox.url,
      apiKey: LIVE,
      budget: makeBudget({ clock: own, listIntervalMs: more.pace === "request" ? 30_000 : undefined }),
      clock: own,
      logger: more.logger ?? silentLogger,
    });
    const poller = makePoller({
      source: { sourceId: "live" },
      client,
      pool,
      apply,
      clock: own,
      logger: silentLogger,
      intervalSeconds: 30,
      marginSeconds: 300,
      backfillSince: "P30D",
      pace: "cycle",
      holder,
      ...more,
    });
    void (async () => {
      for (;;) {
        const { outcome, waitMs } = await poller.runOnce();
        await own.sleep(outcome === "not_due" || outcome === "not_leading" ? waitMs : 1_000);
      }
    })();
    return life;
  };
  /** Of these orders of the provider, those whose version is not in the mirror. */
  async function listLacking(orders: string, before: bigint): Promise<string[]> {
    const mirrored = await database.pool.query<{ versions: string }>(
      "select coalesce(json_object_agg(reference, version), '{}')::text as versions from mirror.orders",
    );
    const { rows } = await provider.pool.query<{ reference: string }>(
      `with mirrored as materialized (select key as reference, value::bigint as version from json_each_text($2)) ${orders}`,
      [before, mirrored.rows[0]?.versions],
    );
    return rows.map(({ reference }) => reference);
  }
  const differing = `select reference from sandbox.orders left join mirrored using (reference)
    where livemode and updated_at < $1 and version is distinct from updated_at`;
  /** By the provider's history: also orders of which every change before the instant is superseded by now. */
  const unknown = `select reference from public.first_changes left join mirrored using (reference)
    where updated_at < $1 and version is null`;
  const { steer } = speakTo(sandbox);
  return {
    clock,
    pool,
    apply,
    sandbox,
    /** For queries of the sandbox's state. */
    provider: provider.pool,
    sent,
    /** When the pollers read lists. */
    listTimes: () => sent.filter(({ url }) => url.pathname === "/v1/orders").map(({ atMs }) => atMs),
    /** Orders whose state in the mirror is not the provider's, of those that changed before an instant. */
    differences: (before: bigint) => listLacking(differing, before),
    /** Orders that make a claim of completeness before an instant false: the provider's history has what the mirror lacks. */
    falseClaims: (before: bigint) => listLacking(`${differing} union ${unknown}`, before),
    steer,
    /** From now on, this becomes of the provider's good answers; undefined leaves them as they are. */
    spoil: (next: Spoil = () => undefined) => void (spoil = next),
    startPoller,
  };
}

/** Such a world in which events arrive: `runUntil` moves its time, and every ten seconds what was sent is applied. */
export async function startAnnouncedWorld(options: Partial<SandboxOptions>) {
  const receiver = await receiveEvents();
  const webhooks = { live: { url: receiver.url, secret: SANDBOX_SECRET } };
  const world = await startVirtualWorld({ ...options, webhooks });
  const { clock, pool, sandbox, apply } = world;
  async function runUntil(ms: number, look: () => Promise<void> = () => Promise.resolve()): Promise<void> {
    while (clock.monotonicMs() < ms) {
      await clock.runUntil(clock.monotonicMs() + 10_000);
      await sandbox.idle();
      const events = receiver.received
        .splice(0)
        .map(({ body, event }) => ({ eventId: String(event.id), body }));
      if (events.length > 0) await apply.applyEvents(await putIntoInbox(pool, events));
      await look();
    }
  }
  return { ...world, runUntil };
}

/**
 * The database's own clock follows a sequence: every transaction sees its values immediately. The function contains no
 * select, so that Postgres can inline it.
 */
export async function makeClockVirtual(pool: Pool): Promise<void> {
  await pool.query(`
    create schema virtual;
    create sequence virtual.micros minvalue 0;
    select setval('virtual.micros', ${CLOCK_START / 1_000n});
    create function virtual.clock_timestamp() returns timestamptz language sql volatile as
      $$ select 'epoch'::timestamptz + pg_sequence_last_value('virtual.micros'::regclass) * interval '1 microsecond' $$;
    do $$ declare place record; begin
      for place in select table_name, column_name from information_schema.columns
        where table_schema = 'mirror' and column_default in ('clock_timestamp()', 'now()')
          and table_name in (select tablename from pg_tables where schemaname = 'mirror') loop
        execute format('alter table mirror.%I alter column %I set default virtual.clock_timestamp()',
          place.table_name, place.column_name);
      end loop;
      -- A view is bound to the clock of its creation.
      for place in select viewname, definition from pg_views
        where schemaname = 'mirror' and definition like '%clock_timestamp()%' loop
        execute format('create or replace view mirror.%I as %s', place.viewname,
          replace(place.definition, 'clock_timestamp()', 'virtual.clock_timestamp()'));
      end loop;
      execute format('alter database %I set search_path = virtual, pg_catalog, public', current_database());
    end $$`);
}

type Traffic = ReturnType<typeof makeTraffic>;

function makeTraffic() {
  let underWay = 0;
  let end: () => void = () => undefined;
  let ended = Promise.resolve();
  const enter = () => {
    if (underWay === 0) ended = new Promise((resolve) => (end = resolve));
    underWay += 1;
  };
  const leave = () => {
    underWay -= 1;
    if (underWay === 0) end();
  };
  return {
    enter,
    leave,
    track: <Result>(work: Promise<Result>): Promise<Result> => {
      enter();
      return work.finally(leave);
    },
    async rest() {
      for (let quiet = 0; quiet < QUIET_TURNS; quiet = underWay === 0 ? quiet + 1 : 0) {
        // Spinning until then would take the processor from the code that this waits for.
        await ended;
        await new Promise((resolve) => setImmediate(resolve));
      }
    },
  };
}

/** Forwards complete answers, so that reading a body takes no uncounted time. */
function watchFetch(traffic: Traffic, pass: (answer: Answer) => Answer): void {
  const plain = globalThis.fetch;
  const watched = async (input: string, init?: RequestInit) => {
    const plainAnswer = await plain(input, init);
    const { status, headers } = plainAnswer;
    const answer = { url: new URL(input), status, headers, body: await plainAnswer.text() };
    const { body, ...how } = answer.url.pathname.startsWith("/v1/") ? pass(answer) : answer;
    return new Response(body, how);
  };
  vi.stubGlobal("fetch", (...request: Parameters<typeof watched>) => traffic.track(watched(...request)));
  onTestFinished(() => void vi.unstubAllGlobals());
}

function watchPool(traffic: Traffic, pool: Pool): Pool {
  const query = (...query: Parameters<Pool["query"]>) => traffic.track(pool.query(...query) as never);
  const connect = async () => {
    traffic.enter();
    const client = await pool.connect();
    const release = client.release.bind(client);
    client.release = (error) => {
      client.release = release;
      traffic.leave();
      release(error);
    };
    return client;
  };
  return new Proxy(pool, {
    get: (target, name) =>
      name === "query" ? query : name === "connect" ? connect : (Reflect.get(target, name) as unknown),
  });
}

/** The clock of a poller in a separate process, as far as a clock can simulate one. */
function makeMortalClock(plain: Clock) {
  let dead = false;
  let thawed: Promise<void> = Promise.resolve();
  let thaw: () => void = () => undefined;
  const clock: Clock = {
    ...plain,
    async sleep(ms, signal) {
      await plain.sleep(ms, signal);
      await thawed;
      if (dead) await new Promise<never>(() => undefined);
    },
  };
  return {
    clock,
    /** It never wakes again, and releases nothing. */
    kill: () => void (dead = true),
    /** As by SIGSTOP and SIGCONT. */
    freeze: () => void (thawed = new Promise((resolve) => (thaw = resolve))),
    thaw: () => thaw(),
  };
}

/** The most requests among `times`, in milliseconds, that any ten seconds hold. */
export function mostInTenSeconds(times: readonly number[]): number {
  return times.reduce(
    (most, from) => Math.max(most, times.filter((time) => time >= from && time < from + 10_000).length),
    0,
  );
}
