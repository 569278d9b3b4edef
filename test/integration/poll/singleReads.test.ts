import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { formatInstant } from "../../../src/domain/order/instant.ts";
import { requestRefetches } from "../../../src/poll/refetches.sql.ts";
import { readRequest, requestPeriod } from "../../../src/poll/periodRequests.sql.ts";
import type { Poller } from "../../../src/poll/poller.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { makeLivePoller, poll, pollUntil } from "../../support/mirror/livePoller.ts";
import { secondsAgo } from "../../support/providers/memoryProvider.ts";
import {
  hangUp,
  json,
  makeHastyClient,
  orderBody,
  refusal,
  startScriptedProvider,
  text,
  type ScriptedProvider,
  type Step,
} from "../../support/providers/scriptedProvider.ts";
import { EMPTY_MIRROR, readPollState } from "../../support/mirror/tables.ts";

const { pool, show, read, listReferences } = await openLiveMirror({ max: 6, statementTimeoutMs: 10_000 });
let provider: ScriptedProvider;

beforeEach(async () => {
  provider = await startScriptedProvider();
  await pool.query(EMPTY_MIRROR);
});
afterEach(() => provider.close());

const OLD = secondsAgo(7_200);
const order = (reference: string, more: Record<string, unknown> = {}) =>
  orderBody({ reference, updatedAt: formatInstant(OLD), ...more });

/** The provider answers single reads with these; for other references with a good order. Its lists are empty. */
function serve(answers: Readonly<Record<string, Step>>): void {
  provider.script((response, request) => {
    const { pathname } = new URL(request.url, provider.url);
    const reference = decodeURIComponent(pathname.slice("/v1/orders/".length));
    const page = { data: [], hasMore: false, limit: 200, offset: 0, request_id: "req_1" };
    const answer =
      pathname === "/v1/orders" || pathname === "/v1/branches"
        ? json(200, page)
        : (answers[reference] ?? json(200, { ...order(reference), request_id: "req_1" }));
    answer(response, request);
  });
}

const countReads = (reference: string) =>
  provider.requests.filter(({ url }) => url === `/v1/orders/${reference}`).length;

function makeSut(intervalSeconds = 0.2): Poller {
  const client = makeHastyClient({ baseUrl: provider.url });
  return makeLivePoller({ client, pool, intervalSeconds, backfillSince: "PT1M" });
}

const request = (...references: string[]) =>
  requestRefetches(pool, { sourceId: "live", references, reason: "requested by a person" });
const readWishes = () =>
  read<{ reference: string; failures: number; last_error: string | null }>(
    "select reference, failures, last_error from mirror.refetches order by reference",
  );
const readSafeThrough = async () => (await readPollState(pool, "live"))?.safeThrough ?? 0n;
const readQuarantine = () =>
  read<{ reference: string; detail: string }>(
    "select reference, via, reason, detail from mirror.quarantine where state = 'open' order by reference",
  );
/** Seconds until the next single read. */
const readWait = async () => {
  const wait = "extract(epoch from min(next_attempt_at) - clock_timestamp())::float8";
  return (await read<{ wait: number }>(`select ${wait} as wait from mirror.refetches`))[0]!.wait;
};
/** A read has shown these orders. */
const showOld = (...references: string[]) =>
  show(
    OLD,
    references.map((reference) => ({ reference, updatedAt: formatInstant(OLD) })),
    { marginSeconds: 5 },
  );
const verifyOld = () => {
  const period = { since: OLD - 60_000_000_000n, until: OLD + 60_000_000_000n };
  return requestPeriod(pool, { kind: "verification", sourceId: "live", ...period });
};
const endWaits = () => pool.query("update mirror.refetches set next_attempt_at = clock_timestamp()");
/** Polls, with every wait of a single read ended, until that holds after a cycle. */
const hurryUntil = (poller: Poller, reached: () => Promise<boolean>) =>
  pollUntil(poller, async () => {
    const isOver = await reached();
    if (!isOver) await endWaits();
    return isOver;
  });

const HTML = { "content-type": "text/html" };
const html = (status: number) => text(status, "<h1>Jane Doe, Dam 1</h1>", HTML);
const noTime = json(200, { ...order("BAD"), updatedAt: null, request_id: "req_1" });

const failing: Record<string, Step> = {
  "200 without updatedAt": noTime,
  "200 that is HTML": html(200),
  "503 without a body": text(503, ""),
  "no answer": hangUp,
  "401 for this order only": text(401, ""),
  "404 as HTML": html(404),
  "404 with another code": refusal(404, "not_found"),
  "410 without a body": text(410, ""),
  "a redirect": text(302, "", { location: "/login" }),
};
const gone: Record<string, Step> = {
  "404 with the provider's code": refusal(404, "order_not_found"),
};

describe("a refetch that is answered by", () => {
  it.each(Object.entries({ ...failing, ...gone }))(
    "%s ends no cycle and delays neither the proof nor other orders",
    async (name, answer) => {
      serve({ BAD: answer });
      await request("BAD");
      await request("GOOD");
      const poller = makeSut();
      const outcomes = new Set<string>();
      outcomes.add((await poll(poller)).outcome);
      const before = await readSafeThrough();
      await vi.waitUntil(
        async () => {
          outcomes.add((await poll(poller)).outcome);
          return (await readSafeThrough()) > before && (await listReferences()).includes("GOOD");
        },
        { timeout: 60_000, interval: 1 },
      );
      expect([...outcomes]).toEqual(["polled"]);
      expect(countReads("BAD")).toBeGreaterThan(0);
      const left = await readWishes();
      expect(left.map(({ reference }) => reference)).toEqual(name in gone ? [] : ["BAD"]);
      for (const { failures, last_error } of left) {
        expect(failures).toBeGreaterThan(0);
        expect(last_error).toMatch(/^GET \/v1\/orders\/\{reference\} /);
        expect(last_error).not.toMatch(/Jane|Dam/);
      }
    },
  );
});

it("shows an order that no address can name in quarantine, and sends nothing for it", async () => {
  serve({});
  const poller = makeSut();
  await request("..");
  await vi.waitUntil(
    async () => {
      expect((await poll(poller)).outcome).toBe("polled");
      await endWaits();
      return (await readQuarantine()).length > 0;
    },
    { timeout: 60_000, interval: 1 },
  );
  expect(await readQuarantine()).toEqual([expect.objectContaining({ reference: "..", via: "refetch" })]);
  expect((await readWishes())[0]?.last_error).toContain("cannot be part of an address");
  expect(provider.requests.filter(({ url }) => !/^\/v1\/(orders\?|branches)/.test(url))).toEqual([]);
});

describe("an order that cannot be refetched", () => {
  it("is requested once per attempt, at growing intervals", async () => {
    serve({ BAD: html(500) });
    await request("BAD");
    const poller = makeSut(0.05);
    const waits: number[] = [];
    for (let attempt = 1; attempt <= 4; attempt += 1) {
      await endWaits();
      await pollUntil(poller, async () => (await readWishes())[0]?.failures === attempt);
      expect(countReads("BAD")).toBe(attempt);
      waits.push(await readWait());
    }
    expect(waits[3]).toBeGreaterThan(3 * waits[0]!);
  });

  it("is quarantined after some attempts, with the provider's answer, and then rarely retried", async () => {
    serve({ BAD: html(500), WORSE: html(500), NULL: noTime });
    await request("BAD", "WORSE", "NULL");
    const poller = makeSut(0.05);
    await hurryUntil(poller, async () => (await readQuarantine()).length === 3);
    const [bad, ...others] = await readQuarantine();
    expect(others.map(({ reference }) => reference)).toEqual(["NULL", "WORSE"]);
    expect(bad).toMatchObject({
      via: "refetch",
      reason: "unreadable_singly",
      detail: expect.stringContaining("HTTP 500"),
    });
    expect(others[0]!.detail).toMatch(/updatedAt/);
    // A cycle may have time for only some of them and leave the others to the next one.
    await pollUntil(poller, async () => (await readWait()) > 3_600);
    // A retry that fails again adds no row.
    await endWaits();
    await poll(poller);
    await poll(poller);
    expect(await readQuarantine()).toHaveLength(3);
    // Nor does one of an order whose entry a person has dismissed.
    await pool.query("update mirror.quarantine set state = 'dismissed' where reference = 'BAD'");
    await hurryUntil(poller, async () => (await readWishes()).every(({ failures }) => failures > 7));
    expect(await readQuarantine()).toHaveLength(2);
    // Who asks for it again is told again.
    await request("BAD");
    await hurryUntil(poller, async () => (await readQuarantine()).length === 3);
  });

  it("leaves the quarantine once it can be read", async () => {
    serve({ BAD: noTime });
    await request("BAD");
    const poller = makeSut(0.05);
    await hurryUntil(poller, async () => (await readQuarantine()).length === 1);
    serve({});
    await hurryUntil(poller, async () => (await readWishes()).length === 0);
    expect(await readQuarantine()).toEqual([]);
    expect(await listReferences()).toEqual(["BAD"]);
  });

  it("starts with the first attempt when it is requested again", async () => {
    serve({ BAD: noTime });
    await request("BAD");
    const poller = makeSut(60);
    await poll(poller);
    expect(await readWishes()).toMatchObject([{ failures: 1 }]);
    await request("BAD");
    expect(await readWishes()).toEqual([{ reference: "BAD", failures: 0, last_error: null }]);
    expect(await readWait()).toBeLessThanOrEqual(0);
  });
});

it("an answer about another order is applied as what it is, and says that what was asked for is missing", async () => {
  await showOld("CLAIMED");
  // REAL has it as its externalOrderId.
  serve({ CLAIMED: json(200, { ...order("REAL", { externalOrderId: "CLAIMED" }), request_id: "req_1" }) });
  await request("CLAIMED");
  await poll(makeSut(60));
  expect((await listReferences()).toSorted()).toEqual(["CLAIMED", "REAL"]);
  expect(await read("select reference, kind from mirror.exceptions")).toEqual([
    { reference: "CLAIMED", kind: "missing" },
  ]);
});

describe("a failure of all refetches", () => {
  const many = Array.from({ length: 20 }, (_, index) => `R${index}`);
  it.each([
    ["a 429", refusal(429, "rate_limit_exceeded", { "retry-after": "1" }), 1],
    ["a refused key", text(401, ""), 1],
    // R0, R1, a good one, R11, R12, R13.
    ["a server that fails three times in a row", html(500), 6],
  ])("%s ends their batch but not the cycle", async (_, answer, reads) => {
    const { R10: _good, ...bad } = Object.fromEntries(many.map((reference) => [reference, answer]));
    serve(bad);
    await request(...many, "Z");
    const poller = makeSut(60);
    expect(await poll(poller)).toMatchObject({ outcome: "polled" });
    expect(await readSafeThrough()).toBeGreaterThan(0n);
    expect(provider.requests.filter(({ url }) => url.startsWith("/v1/orders/R"))).toHaveLength(reads);
    // A good order behind them has its turn.
    await poller.close();
    if (reads > 1) await pollUntil(makeSut(), async () => (await listReferences()).includes("Z"));
  });
});

it("a verification that meets an unreadable order continues with the others and reports it", async () => {
  await showOld("A", "BAD", "C");
  serve({ BAD: noTime });
  const id = await verifyOld();
  const poller = makeSut();
  await pollUntil(poller, async () => (await readRequest(pool, id))?.state === "done");
  expect(["A", "C"].filter((one) => countReads(one) === 0)).toEqual([]);
  // The others wait for a list that shows anything.
  const failed = (await readWishes()).filter(({ failures }) => failures > 0);
  expect(failed).toMatchObject([{ reference: "BAD" }]);
  expect(await readRequest(pool, id)).toMatchObject({ unreadable: 1 });
});

it("ends the single reads of a verification when the poller is closed", async () => {
  await showOld("SLOW");
  serve({ SLOW: () => undefined });
  await verifyOld();
  const poller = makeSut();
  poller.start();
  await vi.waitUntil(() => countReads("SLOW") > 0, { timeout: 60_000, interval: 5 });
  await poller.close();
  expect(await read("select from mirror.leases where expires_at > clock_timestamp()")).toEqual([]);
});
