import { createHash } from "node:crypto";
import { beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { Router } from "express";
import { makeGetCertificate, makeListCertificates } from "../../../src/api/certificateRoutes.ts";
import { makeAuthenticate } from "../../../src/http/authenticate.ts";
import { makeErrorAnswer } from "../../../src/http/respond.ts";
import { makeCertificatePage } from "../../../src/ops/lists/certificatePage.ts";
import { makeCertifyDays } from "../../../src/roles/background/certifyDays.ts";
import { parseKeys } from "../../../src/certificates/signingKey.ts";
import type { KeyPlace } from "../../../src/certificates/signingKey.ts";
import { serve } from "../../support/http/serve.ts";
import { readChain } from "../../../src/certificates/certificates.sql.ts";
import { checkChain, isCoveredByWindows } from "../../../src/certificates/checkCertificate.ts";
import { issueCertificate, revokeDisproved } from "../../../src/certificates/issue.ts";
import type { Period } from "../../../src/certificates/periodStates.sql.ts";
import {
  compareStates,
  listDifferences,
  STATES_HEADER,
  writeStates,
} from "../../../src/certificates/states.ts";
import { makePool } from "../../../src/database/database.ts";
import type { Pool } from "../../../src/database/database.ts";
import { formatInstant, parseInstant } from "../../../src/domain/order/instant.ts";
import type { Instant } from "../../../src/domain/order/instant.ts";
import type { Poller } from "../../../src/poll/leader/poller.ts";
import { requestRefetches } from "../../../src/poll/ledger/refetches.sql.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { makeLogger, silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { makeLivePoller } from "../../support/mirror/livePoller.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { addSource, makeEventBody, putIntoInbox } from "../../support/mirror/orders.ts";
import { makeMemoryProvider, secondsAgo } from "../../support/providers/memoryProvider.ts";
import type { MemoryProvider } from "../../support/providers/memoryProvider.ts";
import { createMirrorClient, memoryOrders } from "../../../src/client/mirrorClient.ts";
import { makeTestReport } from "../../support/mirror/report.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";
import { statesOf } from "../../support/signing/statesOf.ts";
import { makeKeyPem, makeKeys } from "../../support/signing/certificateKeys.ts";

let database: TestDatabase;
let pool: Pool;
let provider: MemoryProvider;
let keys = makeKeys();

beforeEach(async () => {
  database = await makeTestDatabase();
  pool = makePool({ url: database.url, purpose: "poll", max: 6, statementTimeoutMs: 10_000 });
  await addSource(pool, "live");
  provider = makeMemoryProvider();
  keys = makeKeys();
  return async () => {
    await pool.end();
    await database.drop();
  };
});

function startPoller(): Poller {
  const poller = makeLivePoller({
    client: provider,
    pool,
    intervalSeconds: 0.05,
    backfillSince: "PT2H",
  });
  onTestFinished(() => poller.close());
  return poller;
}

async function pollUntil(poller: Poller, reached: () => Promise<boolean>): Promise<void> {
  await vi.waitUntil(
    async () => {
      await poller.runOnce();
      return reached();
    },
    { timeout: 60_000, interval: 5 },
  );
}

const one = async <Row>(text: string): Promise<Row> => (await pool.query(text)).rows[0] as Row;
async function isSafe(): Promise<boolean> {
  const { safe } = await one<{ safe: string | null }>(
    "select max(safe_through) as safe from mirror.poll_state",
  );
  return Number(systemClock.now() - BigInt(safe ?? 0)) / 1e9 < 60;
}
const breaches = async () =>
  (await one<{ n: number }>("select count(*)::int as n from mirror.coverage_breaches")).n;
const isReproved = async () =>
  (await isSafe()) &&
  (
    await one<{ open: number }>(
      "select count(*)::int as open from mirror.coverage_breaches where reproved_at is null",
    )
  ).open === 0;

/** From two hours to half an hour ago at the latest. */
const hoursAgo = (since: number, until: number): Period => ({
  sourceId: "live",
  since: secondsAgo(since * 3_600),
  until: secondsAgo(until * 3_600),
});

async function tell(reference: string, updatedAt: Instant, status = "cancelled"): Promise<void> {
  const id = `evt-${reference}-${updatedAt}`;
  const body = makeEventBody({ id, order: { reference, updatedAt: formatInstant(updatedAt), status } });
  await makeLiveApply(pool).applyEvents(await putIntoInbox(pool, [{ eventId: id, body }]));
}

/** Issues a certificate and collects what it certifies. */
async function issue(period: Period, more: { acceptsNewKey?: boolean } = {}) {
  const raws: string[] = [];
  let csv = STATES_HEADER;
  const certificate = await issueCertificate(
    {
      pool,
      keys,
      ...more,
      onStates(states) {
        raws.push(...states.map(({ raw }) => `${raw}\n`));
        csv += writeStates(states.flatMap(({ state }) => (state === null ? [] : [state])));
        return Promise.resolve();
      },
    },
    period,
  );
  return { certificate, orders: raws.join(""), csv };
}

async function chain(): Promise<string[]> {
  const envelopes: string[] = [];
  for await (const envelope of readChain(pool, "live")) envelopes.push(envelope);
  return envelopes;
}

describe("a certificate of a proved period", () => {
  it("certifies the last state of each order in the period, and is checked without the mirror", async () => {
    const period = hoursAgo(1.5, 0.5);
    for (let minutes = 1; minutes < 115; minutes += 3) provider.put(`R${minutes}`, secondsAgo(minutes * 60));
    provider.put("EARLY", period.since);
    provider.put("LATE", period.until);
    const poller = startPoller();
    await pollUntil(poller, isSafe);
    // One changes after the period, and one goes.
    provider.put("R34", secondsAgo(0), { status: "delivered" });
    provider.remove("R37");
    await requestRefetches(pool, { sourceId: "live", references: ["R34", "R37"], reason: "asked" });
    await pollUntil(
      poller,
      async () =>
        (
          await one<{ n: number }>(
            "select count(*)::int as n from mirror.orders where gone_at is not null or version > 1e9 * (extract(epoch from now()) - 20)",
          )
        ).n >= 2,
    );

    const { orders, csv } = await issue(period);
    const { certificates, problem, statements } = checkChain(await chain(), keys[0]);
    expect({ problem, statements }).toEqual({ problem: undefined, statements: 2 });
    const states = await statesOf(orders);
    const expected = ["EARLY", ...[...Array(20).keys()].map((n) => `R${31 + 3 * n}`)].filter(
      (name) => name !== "R37",
    );
    expect(states.map(({ reference }) => reference).toSorted()).toEqual(expected.toSorted());
    expect(certificates).toMatchObject([
      { predicate: { orders: expected.length, gone: 1, claimed: 0, exceptions: [], breaches: [] } },
    ]);
    expect(compareStates(states, certificates[0]!)).toEqual({
      orders: expected.length,
      equal: true,
      repeated: [],
      outside: 0,
    });
    expect(await statesOf(csv)).toEqual(states);

    // Any other export is distinguished from it, row by row.
    const changed = await statesOf(
      orders
        .replace(
          '"reference":"R40","externalOrderId":"shop-R40"',
          '"reference":"R40","externalOrderId":"other"',
        )
        .replace(/^.*"R43".*\n/m, ""),
    );
    expect(compareStates(changed, certificates[0]!).equal).toBe(false);
    expect(listDifferences(changed, states, certificates[0]!)).toEqual(
      expect.arrayContaining(["R40: the same updatedAt, different content", "R43: missing"]),
    );
    expect(listDifferences(changed, states, certificates[0]!)).toHaveLength(2);
  });

  it("is about the same states as the copy of a reader that has reconciled", async () => {
    const period = hoursAgo(1.5, 0.5);
    for (let order = 0; order < 60; order += 5) provider.put(`R${order}`, secondsAgo(60 * order));
    await pollUntil(startPoller(), isSafe);
    await issue(period);
    const { certificates } = checkChain(await chain(), keys[0]);
    const server = await serve(makeTestReport({ pool }));
    onTestFinished(() => server.close());
    const copy = memoryOrders();
    const { safeThrough } = await createMirrorClient({ baseUrl: server.url }).reconcile(copy);
    expect(parseInstant(safeThrough ?? "")).toBeGreaterThan(period.until);
    const states = [...copy.orders.values()];
    expect(compareStates(states, certificates[0]!)).toMatchObject({ equal: true });
    const without = states.filter(({ reference }) => reference !== "R45");
    expect(compareStates(without, certificates[0]!)).toMatchObject({ equal: false });
  });

  it("lists the windows that prove it, joined where they were read under the same circumstances", async () => {
    const period = hoursAgo(1.5, 0.5);
    for (let order = 0; order < 30; order += 1) provider.put(`R${order}`, secondsAgo(60 * order));
    await pollUntil(startPoller(), isSafe);
    const minute = 60n * 1_000_000_000n;
    const insert = (since: bigint, until: bigint, fence: number, settle: number) =>
      pool.query(
        `insert into mirror.coverage (source_id, since, until, sweep, proved, fence, provider, server, settle_seconds,
           overlap_seconds, requests, orders) values ('live', $1, $2, 'delayed', true, $3, 'P', 'D', $4, 60, 2, 5)`,
        [since, until, fence, settle],
      );
    // Neighbours, an overlap, one inside another, and one after a gap; then another leader.
    const at = (minutes: bigint) => period.since + minutes * minute;
    await insert(at(0n), at(10n), 90_001, 5);
    await insert(at(10n), at(20n), 90_001, 9);
    await insert(at(18n), at(30n), 90_001, 7);
    await insert(at(19n), at(22n), 90_001, 7);
    await insert(at(35n), at(40n), 90_001, 7);
    await insert(at(38n), at(50n), 90_002, 7);
    await pool.query("update mirror.coverage set proved = false where fence < 90000 and sweep <> 'backfill'");
    await issue(period);
    const [certificate] = checkChain(await chain(), keys[0]).certificates;
    const { windows } = certificate!.predicate.proof;
    const span = (since: bigint, until: bigint) => ({
      since: formatInstant(at(since)),
      until: formatInstant(at(until)),
      sweep: "delayed",
      provider: "P",
      database: "D",
      overlapSeconds: 60,
    });
    const one = { settleSeconds: 7, windows: 1, requests: 2 };
    expect(windows.filter(({ fence }) => fence.startsWith("9000"))).toEqual([
      { ...span(0n, 30n), fence: "90001", settleSeconds: 5, windows: 4, requests: 8 },
      { ...span(35n, 40n), fence: "90001", ...one },
      { ...span(38n, 50n), fence: "90002", ...one },
    ]);
    // What the poller itself has read covers the period.
    expect(windows.some(({ sweep }) => sweep === "backfill")).toBe(true);
    expect(isCoveredByWindows(certificate!.predicate)).toBe(true);
    const proof = {
      ...certificate!.predicate.proof,
      windows: windows.filter(({ provider }) => provider === "P"),
    };
    expect(isCoveredByWindows({ ...certificate!.predicate, proof })).toBe(false);
  });

  it("is the same one when it is asked for again, and a new one when the states differ", async () => {
    const period = hoursAgo(1, 0.5);
    provider.put("A", secondsAgo(2_400));
    const poller = startPoller();
    await pollUntil(poller, isSafe);
    const { certificate } = await issue(period);
    expect((await issue(period)).certificate).toEqual(certificate);
    provider.remove("A");
    await requestRefetches(pool, { sourceId: "live", references: ["A"], reason: "asked" });
    await pollUntil(
      poller,
      async () => (await pool.query("select from mirror.orders where gone_at is not null")).rowCount === 1,
    );
    expect((await issue(period)).certificate).toMatchObject({ serial: certificate.serial + 1, orders: 0 });
  });

  it("is refused before the proof covers it, with what is missing, and never issued by two processes at once twice", async () => {
    await expect(issue(hoursAgo(1, 0.5))).rejects.toMatchObject({
      name: "PeriodNotProvedError",
      retry: "later",
    });
    await pollUntil(startPoller(), isSafe);
    await expect(issue(hoursAgo(1, 0.1))).rejects.toMatchObject({
      name: "PeriodNotProvedError",
      retry: "later",
      fix: expect.stringContaining("Ask again after 20") as string,
    });
    await expect(issue(hoursAgo(48, 0.5))).rejects.toMatchObject({
      retry: "never",
      fix: expect.stringContaining("order-mirror backfill --from 20") as string,
    });
    expect(await chain()).toEqual([]);
    const period = hoursAgo(1, 0.5);
    await Promise.all(Array.from({ length: 4 }, () => issue(period)));
    expect(await chain()).toHaveLength(2);
    expect(checkChain(await chain(), keys[0]).problem).toBeUndefined();
  });

  it("leaves out what no read has shown, and counts it", async () => {
    provider.put("A", secondsAgo(60));
    provider.put("B", secondsAgo(2_400));
    const poller = startPoller();
    await pollUntil(poller, isSafe);
    // Older than the state that reads show: such a claim is never refuted.
    await tell("A", secondsAgo(2_400), "delivered");
    const { certificate, orders } = await issue(hoursAgo(1, 0.5));
    expect((await statesOf(orders)).map(({ reference }) => reference)).toEqual(["B"]);
    expect(checkChain(await chain(), keys[0]).certificates.at(-1)).toMatchObject({
      predicate: { orders: 1, claimed: 1 },
    });
    expect(certificate.orders).toBe(1);
  });

  it("is refused when retention has removed states of the period", async () => {
    provider.put("A", secondsAgo(2_400));
    const poller = startPoller();
    await pollUntil(poller, isSafe);
    provider.put("A", secondsAgo(5), { status: "delivered" });
    await pollUntil(
      poller,
      async () => (await pool.query("select from mirror.orders where revision = 2")).rowCount === 1,
    );
    expect((await issue(hoursAgo(1, 0.5))).certificate.orders).toBe(1);
    await pool.query(
      "delete from mirror.history h where not exists (select from mirror.orders o where o.history_id = h.history_id)",
    );
    await expect(issue(hoursAgo(1, 0.5))).rejects.toMatchObject({
      retry: "never",
      message: expect.stringContaining("Retention") as string,
    });
  });

  it("lists exceptions", async () => {
    provider.serveToo('{"reference":"X","status":"created"}');
    await pollUntil(startPoller(), isSafe);
    await issue(hoursAgo(1, 0.5));
    const [certificate] = checkChain(await chain(), keys[0]).certificates;
    expect(certificate!.predicate.exceptions).toEqual([{ reference: "X", kind: "unreadable_order" }]);
  });
});

describe("a certificate that a later change disproves", () => {
  it("is shown as disproved at once, revoked in the chain, and issued again after the proof", async () => {
    const period = hoursAgo(1, 0.5);
    provider.put("A", secondsAgo(2_400));
    const poller = startPoller();
    await pollUntil(poller, isSafe);
    await issue(period);
    provider.put("HIDDEN", secondsAgo(2_000));
    await requestRefetches(pool, { sourceId: "live", references: ["HIDDEN"], reason: "asked" });
    await pollUntil(poller, async () => (await breaches()) > 0);
    const shown = async () => {
      const statement =
        "select serial, disproved_at is not null, revoked_by from reporting.certificates order by serial desc";
      return (await pool.query({ text: statement, rowMode: "array" })).rows;
    };
    expect(await shown()).toEqual([[2, true, null]]);
    expect(await revokeDisproved({ pool, keys }, "live")).toBe(1);
    expect(await revokeDisproved({ pool, keys }, "live")).toBe(0);
    await pollUntil(poller, isReproved);
    await issue(period);
    expect(await shown()).toEqual([
      [4, false, null],
      [2, true, 3],
    ]);
    const { certificates, problem } = checkChain(await chain(), keys[0]);
    expect(problem).toBeUndefined();
    expect(
      certificates.map(({ predicate, revoked }) => [predicate.serial, predicate.orders, revoked]),
    ).toEqual([
      [2, 1, true],
      [4, 2, false],
    ]);
    expect(certificates[1]!.predicate.breaches).toMatchObject([
      { reference: "HIDDEN", kind: "missed_change" },
    ]);
  });

  it("is revoked before anything else is issued, whoever forgot it", async () => {
    provider.put("A", secondsAgo(2_400));
    const poller = startPoller();
    await pollUntil(poller, isSafe);
    await issue(hoursAgo(1, 0.5));
    provider.put("HIDDEN", secondsAgo(2_000));
    await requestRefetches(pool, { sourceId: "live", references: ["HIDDEN"], reason: "asked" });
    await pollUntil(poller, async () => (await breaches()) > 0 && isReproved());
    await issue(hoursAgo(1.5, 1.1));
    const kinds = await pool.query<{ kind: string }>("select kind from mirror.certificates order by serial");
    expect(kinds.rows.map(({ kind }) => kind)).toEqual(["key", "completeness", "revocation", "completeness"]);
  });
});

describe("readers", () => {
  async function ask(router: Router, address: string, headers: Record<string, string> = {}) {
    const server = await serve(router);
    onTestFinished(() => server.close());
    const response = await fetch(server.url + address, { headers });
    return {
      status: response.status,
      type: response.headers.get("content-type"),
      text: await response.text(),
    };
  }
  function makeApi(): Router {
    const authenticate = makeAuthenticate({
      apiTokens: [{ token: "a-token-of-readers", sourceId: "live" }],
      sources: [{ sourceId: "live" }],
      localTrust: false,
      clock: systemClock,
      logger: silentLogger,
    });
    const router = Router();
    router.get("/v1/certificates", makeListCertificates({ pool, authenticate, logger: silentLogger }));
    router.get("/v1/certificates/:day", makeGetCertificate({ pool, authenticate }));
    return router.use(makeErrorAnswer(silentLogger));
  }
  const token = { authorization: "Bearer a-token-of-readers" };
  const page = async (serial: number) => {
    const ops = Router().get(
      "/:sourceId/:serial",
      (_request, response, next) => {
        response.locals["viewer"] = { role: "viewer", person: null };
        next();
      },
      makeCertificatePage(pool),
    );
    return (await ask(ops, `/live/${serial}`)).text.replaceAll(/<[^>]+>|\s+/g, " ");
  };

  it("get the certificate of a day and the chain with a token, 410 once it is disproved, and a page", async () => {
    await pollUntil(startPoller(), isSafe);
    const day = formatInstant(systemClock.now() - 10n * 86_400_000_000_000n).slice(0, 10);
    await pool.query("update mirror.poll_state set history_since = 0");
    const since = parseInstant(`${day}T00:00:00Z`);
    const { certificate } = await issue({ sourceId: "live", since, until: since + 86_400_000_000_000n });
    expect((await ask(makeApi(), `/v1/certificates/${day}`)).status).toBe(401);
    const got = await ask(makeApi(), `/v1/certificates/${day}`, token);
    expect(got).toEqual({
      status: 200,
      type: "application/vnd.dsse.envelope.v1+json; charset=utf-8",
      text: `${certificate.envelope}\n`,
    });
    const listed = await ask(makeApi(), "/v1/certificates", token);
    expect(listed.text.trim().split("\n")).toEqual(await chain());
    expect((await ask(makeApi(), "/v1/certificates/2026-01-01", token)).status).toBe(404);
    expect((await ask(makeApi(), "/v1/certificates/yesterday", token)).status).toBe(404);
    expect(await page(2)).toContain("No change is known that it missed.");
    await pool.query("select mirror.withdraw_proof('live', $1, 'late_event', 'R', 'refetch', '')", [
      since + 1n,
    ]);
    expect(await ask(makeApi(), `/v1/certificates/${day}`, token)).toMatchObject({
      status: 410,
      text: expect.stringContaining("certificate_disproved") as string,
    });
    expect(await page(2)).toContain("Disproved: a change that it had missed");
    expect(await page(9)).toContain("There is no such certificate.");
  });
});

describe("the certificates of the read API", () => {
  const tokens = [
    { token: "a-token-of-the-live-source", sourceId: "live" },
    { token: "a-token-of-the-test-source", sourceId: "test" },
  ];
  const open = async () => {
    await addSource(pool, "test");
    const sources = [{ sourceId: "live" }, { sourceId: "test" }];
    const server = await serve(makeTestReport({ pool, apiTokens: tokens, sources }));
    onTestFinished(() => server.close());
    return (resource: string, sourceId = "live", init: RequestInit = {}) => {
      const token = tokens.find((each) => each.sourceId === sourceId)?.token ?? "a-token-of-nobody";
      const headers = { ...(init.headers as object), authorization: `Bearer ${token}` };
      return fetch(`${server.url}/v1/certificates${resource}`, { ...init, headers });
    };
  };
  /** A chain of any texts: the routes pass them on. */
  const fill = (statements: number, bytes = 10) =>
    pool.query(
      `insert into mirror.certificates (source_id, serial, kind, digest, key_id, envelope)
       select 'live', serial, 'key', sha256(serial::text::bytea), 'k', serial || ':' || repeat('x', $2)
       from generate_series((select count(*) + 1 from mirror.certificates), $1::int) as serial`,
      [statements, bytes],
    );

  it("are refused for days that are none or have no whole day of instants, and for other methods", async () => {
    const ask = await open();
    const days = [
      "2262-04-11",
      "1677-09-21",
      "9999-12-31",
      "0000-01-01",
      "2026-02-30",
      "2026-11-21%00",
      "%20",
    ];
    for (const day of [...days, "2026-11-21T00:00:00Z", "2026-11-21T00:00:00.000", "1".repeat(5_000)])
      expect([day, (await ask(`/${day}`)).status]).toEqual([day, 404]);
    for (const resource of ["", "/2026-11-21"]) {
      const refused = await ask(resource, "live", { method: "DELETE" });
      expect([refused.status, refused.headers.get("allow")]).toEqual([405, "GET"]);
    }
    expect((await ask("/2026-11-21/more")).status).toBe(404);
  });

  it("are those of the token's source only", async () => {
    const ask = await open();
    await fill(3);
    expect(await (await ask("")).text()).toBe("1:xxxxxxxxxx\n2:xxxxxxxxxx\n3:xxxxxxxxxx\n");
    expect(await (await ask("?source=live&sourceId=live", "test")).text()).toBe("");
    expect((await ask("", "test", { headers: { "x-source": "live" } })).status).toBe(422);
    expect((await ask("", "nobody")).status).toBe(401);
    expect((await ask("/2026-11-21", "nobody")).status).toBe(401);
  });

  it("are not sent again while the chain has not grown", async () => {
    const ask = await open();
    await fill(2);
    const etag = (await ask("")).headers.get("etag") ?? "";
    const again = await ask("", "live", { headers: { "if-none-match": etag, "cache-control": "max-age=0" } });
    expect([again.status, await again.text()]).toEqual([304, ""]);
    const head = await ask("", "live", { method: "HEAD" });
    expect([head.status, head.headers.get("etag"), await head.text()]).toEqual([200, etag, ""]);
    await fill(3);
    const grown = await ask("", "live", { headers: { "if-none-match": etag, "cache-control": "max-age=0" } });
    expect([grown.status, (await grown.text()).split("\n").length]).toEqual([200, 4]);
  });

  it("are read in pages, as fast as the client takes them", async () => {
    const ask = await open();
    await fill(400, 100_000);
    const read = vi.spyOn(pool, "query");
    const response = await ask("");
    const reader = response.body?.getReader();
    const begin = new TextDecoder().decode((await reader?.read())?.value);
    expect(begin.startsWith("1:xxx")).toBe(true);
    await expect.poll(() => read.mock.calls.length).toBeGreaterThan(1);
    // Nobody reads on: of 40 MB only what fits into the buffers of the connection is read from the database.
    expect(read.mock.calls.length).toBeLessThan(8);
    let length = begin.length;
    for (let chunk = await reader?.read(); chunk?.done === false; chunk = await reader?.read())
      length += chunk.value.byteLength;
    expect(length).toBe((await chain()).join("\n").length + 1);
  });
});

describe("the leading poller", () => {
  const place = () => ({ certificateKey: PEM, dataDir: "/dev/null/none" });
  const PEM = makeKeyPem();

  it("certifies the last days once each, revokes, certifies again, and goes on polling without a key", async () => {
    const logged: string[] = [];
    const logger = makeLogger({
      level: "warn",
      format: "json",
      service: "test",
      destination: { write: (line) => void logged.push(line) },
    });
    await pollUntil(startPoller(), isSafe);
    await pool.query(
      "update mirror.poll_state set history_since = safe_through - 3 * 86400 * 1000000000::bigint",
    );
    const context = { term: {} as never, signal: AbortSignal.timeout(60_000) };
    const run = async (more: Partial<KeyPlace> = {}, times = 1) => {
      const task = makeCertifyDays({ pool, sourceId: "live", place: { ...place(), ...more }, logger });
      for (let time = 0; time < times; time += 1) await task.run(context);
    };
    // Of the three days before now, two are whole.
    await run({ certificateKey: null }, 3);
    expect(logged.map((line) => (JSON.parse(line) as { msg: string }).msg)).toEqual([
      "a day is not certified",
    ]);
    await run({}, 4);
    const kinds = async () =>
      (await pool.query<{ kind: string }>("select kind from mirror.certificates order by serial")).rows.map(
        ({ kind }) => kind,
      );
    expect(await kinds()).toEqual(["key", "completeness", "completeness"]);
    await pool.query(
      "select mirror.withdraw_proof('live', since, 'late_event', 'R', 'refetch', '') from mirror.certificates where serial = 3",
    );
    await run({}, 2);
    expect(await kinds()).toEqual(["key", "completeness", "completeness", "revocation"]);
    expect(checkChain(await chain(), parseKeys(PEM, "a test")[0]).problem).toBeUndefined();
  });
});

describe("the key", () => {
  it("is replaced by one that both sign for; another one is refused unless it is accepted, which checkers see", async () => {
    await pollUntil(startPoller(), isSafe);
    const [first] = keys;
    await issue(hoursAgo(1, 0.5));
    keys = makeKeys(keys);
    await issue(hoursAgo(1.5, 1.1));
    expect(checkChain(await chain(), first)).toMatchObject({ problem: undefined, statements: 4 });
    keys = makeKeys();
    await expect(issue(hoursAgo(1.6, 1.5))).rejects.toMatchObject({ name: "FormerKeyMissingError" });
    await issue(hoursAgo(1.6, 1.5), { acceptsNewKey: true });
    expect(checkChain(await chain(), first)).toMatchObject({
      problem: expect.stringContaining("line 5") as string,
      statements: 4,
    });
    expect(checkChain((await chain()).slice(4), keys[0])).toMatchObject({
      problem: undefined,
      statements: 2,
    });
  });
});

it("never changes or removes a statement", async () => {
  await pollUntil(startPoller(), isSafe);
  await issue(hoursAgo(1, 0.5));
  for (const text of [
    "update mirror.certificates set orders = 7",
    "delete from mirror.certificates",
    "truncate mirror.certificates",
  ]) {
    await expect(pool.query(text)).rejects.toThrow("never changed or removed");
  }
  const [, envelope = ""] = await chain();
  const stored = await one<{ digest: string }>(
    "select encode(digest, 'hex') as digest from mirror.certificates where serial = 2",
  );
  const { payload } = JSON.parse(envelope) as { payload: string };
  expect(stored.digest).toBe(createHash("sha256").update(Buffer.from(payload, "base64")).digest("hex"));
});
