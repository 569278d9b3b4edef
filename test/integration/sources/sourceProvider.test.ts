import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import type { Pool } from "../../../src/database/database.ts";
import { acquireLease } from "../../../src/database/leases.sql.ts";
import { ConfigurationError, UnavailableError } from "../../../src/domain/errors.ts";
import { readStandings } from "../../../src/health/conditions/standing.ts";
import { countAnnouncements } from "../../../src/poll/lostEvents.sql.ts";
import { beginPolling } from "../../../src/poll/pollState.sql.ts";
import type { Poller } from "../../../src/poll/poller.ts";
import { assertOurs, nameProvider, recordConfiguredSources } from "../../../src/sources/configuredSources.ts";
import { adoptSource } from "../../../src/sources/sources.sql.ts";
import type { SourceConfig } from "../../../src/config/config.ts";
import { loadConfig } from "../../../src/config/environment.ts";
import { insertOrder, orderText, putIntoInbox } from "../../support/mirror/orders.ts";
import { runCommand } from "../../support/programs/command.ts";
import { asPool, beside, openTestDatabase } from "../../support/servers/database.ts";
import { makeLiveApply, makeObserver } from "../../support/mirror/liveApply.ts";
import { makeLivePoller } from "../../support/mirror/livePoller.ts";
import {
  makeMemoryProvider,
  secondsAgo,
  type MemoryProvider,
} from "../../support/providers/memoryProvider.ts";
import { serve } from "../../support/http/serve.ts";

const FORMER = "https://api.former.example";
/** Of an order that changed later, the lists cannot tell yet whether the provider has it. */
const MARGIN_SECONDS = 900;
const PATIENCE = { timeout: 60_000 };

let url: string;
let pool: Pool;

beforeEach(async () => {
  const opened = await openTestDatabase({ purpose: "poll", ends: onTestFinished });
  ({ pool } = opened);
  ({ url } = opened.database);
});

const sourceAt = (baseUrl: string, apiKey = "dos_live_x"): SourceConfig =>
  loadConfig({ DELIVERY_BASE_URL: baseUrl, DELIVERY_LIVE_API_KEY: apiKey }, null).sources[0]!;

const record = (...sources: SourceConfig[]) => recordConfiguredSources(pool, { sources });

/** As after a first read of the source, even one without changes. */
const notePolled = () =>
  pool.query(
    "insert into mirror.poll_state (source_id, history_since, polled_through, safe_through) values ('live', 1, 2, 2)",
  );

function startPoller(client: MemoryProvider, config?: SourceConfig): Poller {
  const settings = { backfillSince: "P1D", holder: "test", marginSeconds: MARGIN_SECONDS };
  const known = config && {
    source: { sourceId: "live", mode: config.mode, provider: nameProvider(config) },
    assertOurs: () => assertOurs(pool, config),
  };
  return makeLivePoller({ client, pool, ...settings, ...known });
}

const readLive = async () => (await readStandings(pool))[0]!;
const countOrders = async (pattern: string) =>
  (await pool.query("select from mirror.orders where reference like $1", [pattern])).rowCount!;

describe("a source", () => {
  it("stays with its provider under every spelling of the address and with any key", async () => {
    await record(sourceAt("https://API.former.example:443/base/"));
    await record(sourceAt("https://api.former.example/base", "dos_live_y"));
    await record(sourceAt("https://api.former.example/base//"));
    const { rows } = await pool.query("select provider from mirror.sources");
    expect(rows).toEqual([{ provider: "https://api.former.example/base" }]);
  });

  it("is refused to the other mode, whose orders must not mix with its own", async () => {
    await record(sourceAt(FORMER));
    const other = { ...sourceAt(FORMER), mode: "test" } as const;
    await expect(record(other)).rejects.toThrow(
      "Source live holds live orders, and the configuration makes it test.",
    );
    expect((await pool.query("select mode from mirror.sources")).rows).toEqual([{ mode: "live" }]);
  });

  it.each(["https://api.other.example", "https://api.former.example:8443", "https://api.former.example/v2"])(
    "is refused to %s, with both named and both ways on",
    async (other) => {
      await record(sourceAt(FORMER));
      await notePolled();
      const refusal = await record(sourceAt(other)).catch((error: unknown) => error);
      expect(refusal).toBeInstanceOf(ConfigurationError);
      const { message, fix } = refusal as ConfigurationError;
      expect(message).toBe(`Source live belongs to ${FORMER}, and the configuration names ${other}.`);
      expect(fix).toMatch(/source name of its own/);
      expect(fix).toMatch(/`order-mirror source adopt live`/);
      const { rows } = await pool.query("select base_url from mirror.sources");
      expect(rows).toEqual([{ base_url: FORMER }]);
    },
  );

  it.each<[what: string, bring: () => Promise<unknown>]>([
    ["a poll", notePolled],
    [
      "a window that was read",
      () =>
        pool.query(`insert into mirror.coverage (source_id, since, until, sweep, proved, fence, requests, orders)
          values ('live', 0, 1, 'proof', true, 0, 1, 0)`),
    ],
    ["an order", () => insertOrder(pool, "live", orderText({ reference: "R1" }))],
    ["an event", () => putIntoInbox(pool, [{ eventId: "evt_1", body: Buffer.from("{}") }])],
  ])("stays with its provider once the mirror has %s of it", async (_what, bring) => {
    await record(sourceAt(FORMER));
    await bring();
    await expect(record(sourceAt("https://api.other.example"))).rejects.toThrow(`belongs to ${FORMER}`);
  });

  it("may be corrected until something was read or received; a process with the wrong address then stops", async () => {
    const wrong = sourceAt("https://wrong.example");
    await record(wrong);
    const provider = makeMemoryProvider();
    provider.before = () => {
      throw new UnavailableError("nobody answers there");
    };
    const poller = startPoller(provider, wrong);
    expect(await poller.runOnce()).toMatchObject({ outcome: "failed" });
    // The source belongs to that address while a poller tries to read there.
    await expect(record(sourceAt(FORMER))).rejects.toThrow("belongs to https://wrong.example");
    await poller.close();
    await record(sourceAt(FORMER));

    const late = startPoller(provider, wrong);
    const reads = provider.reads.length;
    expect(await late.runOnce()).toMatchObject({
      outcome: "failed",
      error: expect.any(ConfigurationError) as unknown,
    });
    expect(provider.reads).toHaveLength(reads);
    const { rowCount } = await pool.query("select from mirror.leases where expires_at > clock_timestamp()");
    expect(rowCount).toBe(0);
  });
});

it("is refused by every role and by doctor before the first request", async () => {
  let requests = 0;
  const other = await serve((_request, response) => {
    requests += 1;
    response.status(500).end();
  });
  onTestFinished(() => other.close());
  await record(sourceAt(FORMER));
  await notePolled();
  const env = { DELIVERY_BASE_URL: other.url, DELIVERY_LIVE_API_KEY: "dos_live_x", PORT: "0" };
  const refusal = `Source live belongs to ${FORMER}, and the configuration names ${other.url}.`;
  for (const role of ["web", "worker", "poller", "up"]) {
    const { code, stderr } = await runCommand([role], { databaseUrl: url, env });
    expect(stderr).toContain(refusal);
    expect(code).toBe(2);
  }
  const { stdout } = await runCommand(["doctor"], { databaseUrl: url, env });
  expect(stdout).toContain(refusal);
  expect(requests).toBe(0);
});

const NEXT = "http://127.0.0.1:4999";
const adopt = (...more: string[]) =>
  runCommand(["source", "adopt", "live", ...more], {
    databaseUrl: url,
    env: { DELIVERY_BASE_URL: NEXT, DELIVERY_LIVE_API_KEY: "dos_live_x" },
  });

it("source adopt drops the proofs of the former provider and asks for the remaining orders", async () => {
  await record(sourceAt(FORMER));
  const former = makeMemoryProvider();
  former.put("SANDBOX-OLD", secondsAgo(7_200));
  former.put("SANDBOX-YOUNG", secondsAgo(300));
  const first = startPoller(former);
  const proved = async () => {
    await first.runOnce();
    return (await readLive()).safeThrough;
  };
  await expect.poll(proved, PATIENCE).not.toBeNull();

  // Nothing may change while a poller leads.
  const tooEarly = await adopt("--yes");
  expect(tooEarly.stderr).toContain("A poller is still reading source live.");
  expect(tooEarly.code).toBe(2);
  await first.close();
  const unasked = await adopt();
  expect(unasked.stderr).toContain("add --yes");

  await pool.query(`
    insert into mirror.coverage_breaches (source_id, since, until, kind, reference, version, found_by, detail)
      values ('live', 1, 2, 'missed_change', 'X', 1, 'poll', '');
    insert into mirror.webhook_hours values ('live', now(), 'created', 'lost', 0, 1);
    update mirror.sources set branches_read_at = now();
    insert into mirror.period_requests (source_id, kind, since, until, read_down_to) values ('live', 'backfill', 1, 2, 2)`);
  const { code, stdout } = await adopt("--yes");
  expect(stdout).toContain(`Source live now belongs to ${NEXT}; before, it belonged to ${FORMER}.`);
  expect(code).toBe(0);
  expect(await readLive()).toMatchObject({ safeThrough: null, polledThrough: null });
  expect(await countOrders("SANDBOX-%")).toBe(2);
  expect((await pool.query("select branches_read_at from mirror.sources")).rows).toEqual([
    { branches_read_at: null },
  ]);
  for (const table of ["proved", "coverage_breaches", "webhook_hours"])
    expect((await pool.query(`select from mirror.${table}`)).rowCount).toBe(0);
  const { rows: audit } = await pool.query("select action, target, note, affected from mirror.ops_actions");
  expect(audit).toMatchObject([{ action: "adopt", target: NEXT, affected: "2" }]);
  expect((audit[0] as { note: string }).note).toMatch(
    /^before: https:\/\/api\.former\.example, proved from 20\d\d-.* to 20\d\d-/,
  );
  await expect(record(sourceAt(FORMER))).rejects.toThrow(/belongs to http:\/\/127/);
  await record(sourceAt(NEXT));
  expect((await adopt()).stdout).toBe(`Source live already belongs to ${NEXT}.\n`);

  const next = makeMemoryProvider();
  for (let order = 1; order <= 20; order += 1) next.put(`REAL-${order}`, secondsAgo(3_600 + order));
  const second = startPoller(next);
  // The claim, and whether the orders that it covers are stored.
  const falseClaims: number[] = [];
  const claims = async () => {
    await second.runOnce();
    const { safeThrough } = await readLive();
    const found = await countOrders("REAL-%");
    if (safeThrough !== null && safeThrough > secondsAgo(3_600) && found < 20) falseClaims.push(found);
    return safeThrough !== null && safeThrough > secondsAgo(MARGIN_SECONDS + 60);
  };
  await expect.poll(claims, PATIENCE).toBe(true);
  expect(falseClaims).toEqual([]);
  // The old one is missing; that it is gone shows a margin later. The young one stays until a read can tell.
  const excepted = async () => {
    await second.runOnce();
    return (await pool.query("select reference, kind from mirror.exceptions")).rows as unknown[];
  };
  await expect.poll(excepted, PATIENCE).toEqual([{ reference: "SANDBOX-OLD", kind: "missing" }]);
  const { rows: requests } = await pool.query("select state from mirror.period_requests order by request_id");
  expect(requests).toEqual([{ state: "cancelled" }, { state: "running" }]);
  expect(next.singleReads).toEqual(["SANDBOX-OLD"]);
  expect(await countOrders("SANDBOX-%")).toBe(2);
});

it("is not adopted while a poller begins to lead it", async () => {
  await record(sourceAt(FORMER));
  const lead = async (client: { query: (...given: never[]) => unknown }) => {
    const connection = asPool(client);
    const lease = await acquireLease(connection, { name: "poll:live", holder: "test", ttlMs: 60_000 });
    await beginPolling(connection, lease!, { sourceId: "live", historySince: 1n, polledThrough: 2n });
  };
  const other = "https://api.other.example";
  const given = { sourceId: "live", provider: other, baseUrl: other, person: "test" };
  expect(await beside(pool, lead, () => adoptSource(pool, given))).toBeUndefined();
  await pool.query("update mirror.leases set expires_at = clock_timestamp()");
  expect(await adoptSource(pool, given)).toMatchObject({ former: FORMER });
});

it("source adopt forgets what the events of the former provider announced", async () => {
  await record(sourceAt(FORMER));
  const { tell } = makeObserver(pool, makeLiveApply(pool));
  for (const status of ["created", "picked_up"])
    await tell({ reference: "R", updatedAt: new Date().toISOString(), status });
  const countAnnounced = async () => {
    await countAnnouncements(pool, "live");
    return (await pool.query("select from mirror.webhook_hours")).rowCount;
  };
  expect(await countAnnounced()).toBe(1);
  expect((await adopt("--yes")).code).toBe(0);
  expect(await countAnnounced()).toBe(0);
});
