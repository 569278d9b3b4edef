import { expect, it, vi } from "vitest";
import { formatInstant } from "../../../src/domain/order/instant.ts";
import type { SourceFailure } from "../../../src/domain/source/errors.ts";
import { ProviderError } from "../../../src/provider/errors.ts";
import { acquireLease } from "../../../src/database/leases.sql.ts";
import {
  cancelRequest,
  finishRequests,
  readRequest,
  requestPeriod,
  requestUnlisted,
} from "../../../src/poll/periodRequests.sql.ts";
import {
  completeRefetch,
  noteRefetchFailure,
  postponeRefetch,
  requestRefetches,
  takeRefetches,
} from "../../../src/poll/refetches.sql.ts";
import type { Poller } from "../../../src/poll/poller.ts";
import { openPolledMirror, poll, pollUntil } from "../../support/mirror/livePoller.ts";
import { readPollState } from "../../support/mirror/tables.ts";
import { secondsAgo, type MemoryProvider } from "../../support/providers/memoryProvider.ts";
import { logInto } from "../../support/run/logInto.ts";

const HOUR = 3_600;
const MANY = 20;

const { pool, provider, show, tell, read, listReferences, makeSut } = await openPolledMirror({
  backfillSince: "PT1M",
});

const request = (...references: string[]) =>
  requestRefetches(pool, { sourceId: "live", references, reason: "asked" });
/** Ends a single read of R1 that showed this version; undefined: that found no such order. */
async function complete(
  shown: bigint | undefined,
  { differed = false, meanwhile = () => Promise.resolve() } = {},
): Promise<void> {
  await request("R1");
  const [refetch] = await takeRefetches(pool, { sourceId: "live", limit: 1 });
  await meanwhile();
  await completeRefetch(pool, { sourceId: "live", refetch: refetch!, shown, differed, marginSeconds: 1 });
}
const readRequests = () =>
  read("select reference, attempts, failures from mirror.refetches order by reference");
const endWaits = () => pool.query("update mirror.refetches set next_attempt_at = clock_timestamp()");
const readQuarantine = () =>
  read(
    "select reference, via, reason, detail from mirror.quarantine where state = 'open' order by reference",
  );
const fail = (failure: SourceFailure) => new ProviderError(`the read is ${failure}`, { failure });
const readExceptions = () => read("select distinct reference, kind from mirror.exceptions");

/** Polls, with every wait of a request ended, until the order was read singly that many times. */
const readSingly = (poller: Poller, times: number) =>
  vi.waitUntil(
    async () => {
      await endWaits();
      await poller.runOnce();
      return provider.singleReads.length >= times;
    },
    { timeout: 60_000, interval: 5 },
  );

/** Polls, with every wait of a request ended, until that holds after a cycle. */
const hurryUntil = (poller: Poller, reached: () => Promise<boolean>) =>
  pollUntil(poller, async () => {
    const isOver = await reached();
    if (!isOver) await endWaits();
    return isOver;
  });

it("counts what a read has corrected in the verifications of that time, and in no other", async () => {
  const version = secondsAgo(2 * HOUR);
  await show(secondsAgo(60), [{ reference: "R1", updatedAt: formatInstant(version) }]);
  await show(secondsAgo(60), [{ reference: "R2", updatedAt: formatInstant(version + 1n) }]);
  const periods = [
    ["verification", version, version + 1n],
    ["verification", version - 1n, version],
    ["verification", version + 1n, version + 2n],
    ["backfill", version, version + 1n],
    ["verification", version, version + 1n],
  ] as const;
  const ids: bigint[] = [];
  for (const [kind, since, until] of periods)
    ids.push(await requestPeriod(pool, { kind, sourceId: "live", since, until }));
  await cancelRequest(pool, ids.at(-1)!);
  const read = () => Promise.all(ids.map(async (id) => (await readRequest(pool, id))?.differed));
  await complete(version);
  expect(await read()).toEqual([0, 0, 0, 0, 0]);
  await complete(version, { differed: true });
  expect(await read()).toEqual([1, 0, 0, 0, 0]);
});

it("ends a verification only when what a later one asked for as well was read", async () => {
  const version = secondsAgo(2 * HOUR);
  await show(secondsAgo(60), [{ reference: "R1", updatedAt: formatInstant(version) }]);
  const lease = (await acquireLease(pool, { name: "poll:live", holder: "test", ttlMs: 60_000 }))!;
  const period = { since: version, until: version + 1n };
  const asked = { sourceId: "live", window: period, listed: [], present: secondsAgo(0) };
  const ids: bigint[] = [];
  for (const kind of ["verification", "verification", "backfill"] as const)
    ids.push(await requestPeriod(pool, { kind, sourceId: "live", ...period }));
  await pool.query("update mirror.period_requests set state = 'running', read_down_to = since");
  for (const requestId of ids.slice(0, 2)) await requestUnlisted(pool, { ...asked, requestId });
  const finish = async () => {
    await finishRequests(pool, lease, "live");
    return Promise.all(ids.map(async (id) => (await readRequest(pool, id))?.state));
  };
  expect(await finish()).toEqual(["running", "running", "done"]);
  await complete(undefined, { differed: true });
  expect(await finish()).toEqual(["done", "done", "done"]);
});

it("frees what reads could not show of an order, and never an event about it", async () => {
  await tell({ reference: "R1", updatedAt: formatInstant(secondsAgo(-48 * HOUR)) });
  await pool.query(`insert into mirror.quarantine (source_id, via, reference, reason)
    values ('live', 'poll', 'R1', 'unreadable_order'), ('live', 'refetch', 'R1', 'unreadable_singly')`);
  const readReasons = async () =>
    (await read("select reason from mirror.quarantine order by 1")).map(({ reason }) => reason);
  // Asked for again while it was read: a read that began before says nothing of what was asked for since.
  await complete(secondsAgo(HOUR), { meanwhile: () => request("R1") });
  expect(await readReasons()).toEqual(["dated_ahead", "unreadable_order", "unreadable_singly"]);
  await complete(secondsAgo(HOUR));
  expect(await readReasons()).toEqual(["dated_ahead", "unreadable_order"]);
  await complete(undefined);
  expect(await readReasons()).toEqual(["dated_ahead"]);
});

it("stays requested when it is requested again while the order is being read", async () => {
  await request("R1");
  const [taken] = await takeRefetches(pool, { sourceId: "live", limit: 1 });
  const end = { sourceId: "live", refetch: taken!, shown: undefined };
  await request("R1");
  const untried = [{ reference: "R1", attempts: 0, failures: 0 }];
  await completeRefetch(pool, { ...end, differed: false, marginSeconds: 1 });
  expect(await readRequests()).toEqual(untried);
  await postponeRefetch(pool, { ...end, waitMs: 60_000, missedAt: null });
  expect(await readRequests()).toEqual(untried);
  expect(await noteRefetchFailure(pool, { ...end, error: "no", firstWaitMs: 60_000 })).toBe(false);
  expect(await readRequests()).toEqual(untried);
});

it("reads first what people ask for, then what events ask for, then what verifications ask for", async () => {
  await pool.query(`insert into mirror.refetches (source_id, reference, reason, request_id, next_attempt_at)
    select 'live', reference, 'a reason', request, now() - minutes * interval '1 minute' from (values
      ('VERIFIED', 1, 9), ('PERSON', 1, 8), ('EVENT', null, 6), ('EARLIER EVENT', null, 7), ('NOT DUE', null, -1)
    ) as due (reference, request, minutes)`);
  await requestRefetches(pool, { sourceId: "live", references: ["PERSON"], reason: "requested by a person" });
  const taken = await takeRefetches(pool, { sourceId: "live", limit: 9 });
  expect(taken.map(({ reference }) => reference)).toEqual(["PERSON", "EARLIER EVENT", "EVENT", "VERIFIED"]);
});

it("keeps an order that a read did not find an exception while the list is in doubt", async () => {
  await show(secondsAgo(60), [{ reference: "R1", updatedAt: formatInstant(secondsAgo(2 * HOUR)) }]);
  await request("R1");
  const poller = makeSut();
  await readSingly(poller, 1);
  expect(await readExceptions()).toEqual([{ reference: "R1", kind: "missing" }]);
  await pool.query("update mirror.poll_state set list_emptied_at = clock_timestamp()");
  await readSingly(poller, 2);
  // The count of answers begins again; no read has shown the order.
  expect(await readExceptions()).toEqual([{ reference: "R1", kind: "unconfirmed" }]);
});

it.each([
  "insert into mirror.quarantine (source_id, via, reference, reason) values ('live', 'poll', 'R1', 'unreadable_order')",
  "update mirror.refetches set replayed = true",
  "update mirror.refetches set unconfirmed = true",
  "update mirror.refetches set claim_version = 5",
])("keeps with one absence the exception of an order that the mirror never had (%#)", async (except) => {
  await request("R1");
  await pool.query(except);
  await readSingly(makeSut(), 1);
  expect(await readExceptions()).toMatchObject([{ reference: "R1" }]);
});

it("reads an order until its version is settled, however many reads failed before", async () => {
  const getOrder: MemoryProvider["getOrder"] = (reference, options) => {
    const answer = provider.getOrder(reference, options);
    return provider.singleReads.length <= MANY
      ? answer.then(() => Promise.reject(new Error("away")))
      : answer;
  };
  provider.put("R1", secondsAgo(-HOUR));
  await request("R1");
  const poller = makeSut({ client: { ...provider, getOrder } });
  await readSingly(poller, MANY);
  expect(await readRequests()).toEqual([{ reference: "R1", attempts: MANY, failures: MANY }]);
  await readSingly(poller, MANY + 1);
  expect(await readRequests()).toEqual([{ reference: "R1", attempts: MANY + 1, failures: 0 }]);
});

it("reads an order that was asked for before the database's clock was set back", async () => {
  const poller = makeSut();
  await pollUntil(poller, async () => (await read("select from mirror.proved")).length > 0);
  provider.put("R1", secondsAgo(HOUR));
  await request("R1");
  const later = "clock_timestamp() + interval '1 hour'";
  await pool.query(`update mirror.refetches set requested_at = ${later}, next_attempt_at = ${later}`);
  await pollUntil(poller, () => provider.singleReads.length > 0);
  expect(provider.singleReads[0]).toBe("R1");
});

it("reads an order again when its updatedAt can be settled, and not before", async () => {
  provider.put("R1", secondsAgo(-HOUR));
  await request("R1");
  await readSingly(makeSut(), 1);
  const wait = "select round(extract(epoch from next_attempt_at - clock_timestamp()) / 60)::int as minutes";
  expect(await read(`${wait} from mirror.refetches`)).toEqual([{ minutes: 60 }]);
});

it("gives up an order that is dated more than six hours ahead, and says so", async () => {
  const lines: string[] = [];
  const logger = logInto((line) => void lines.push(line));
  provider.put("AHEAD", secondsAgo(-7 * HOUR));
  await request("AHEAD");
  await readSingly(makeSut({ logger }), 1);
  expect(await readRequests()).toEqual([]);
  expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
    expect.objectContaining({
      reference: "AHEAD",
      reason: "asked",
      msg: "the order is dated more than six hours ahead; no longer read singly",
    }),
  ]);
});

// The next read that can tell is an hour, or more than six hours away.
it.each([2, 8])(
  "keeps the exception of a claim that stands, however often it was read too early (margin %s h)",
  async (hours) => {
    provider.put("R1", secondsAgo(3 * HOUR));
    await tell({ reference: "R1", updatedAt: formatInstant(secondsAgo(HOUR)), status: "cancelled" });
    await request("R1");
    await pool.query("update mirror.refetches set unconfirmed = true");
    await readSingly(makeSut({ marginSeconds: hours * HOUR }), MANY);
    expect(await readExceptions()).toEqual([{ reference: "R1", kind: "unconfirmed" }]);
  },
);

it.each<[string, Error]>([
  ...(["timeout", "unavailable", "unreadable", "too_large", "refused", "not_found"] as const).map(
    (failure): [string, Error] => [failure, fail(failure)],
  ),
  ["an error of another kind", new TypeError("the reference cannot be part of an address")],
])("that ends with %s ends no cycle and delays neither the proof nor other orders", async (name, error) => {
  const getOrder = vi.fn<MemoryProvider["getOrder"]>((...query) => provider.getOrder(...query));
  provider.failing.set("BAD", error);
  provider.put("GOOD", secondsAgo(2 * HOUR));
  await request("BAD", "GOOD");
  const poller = makeSut({ client: { ...provider, getOrder }, intervalSeconds: 60 });
  expect(await poll(poller)).toMatchObject({ outcome: "polled", refetches: 2 });
  expect((await readPollState(pool, "live"))!.safeThrough).not.toBeNull();
  expect(await listReferences()).toEqual(["GOOD"]);
  const once = expect.objectContaining({ attemptsMax: 1 }) as unknown;
  expect(getOrder).toHaveBeenCalledWith("BAD", once);
  const left = await read("select reference, last_error from mirror.refetches");
  expect(left).toEqual(name === "not_found" ? [] : [{ reference: "BAD", last_error: error.message }]);
});

it("waits twice as long after each failure, six hours once the order is in quarantine, and begins anew on request", async () => {
  const waits: number[] = [];
  const told: boolean[] = [];
  const readMinutes = async () => {
    const wait = "extract(epoch from next_attempt_at - clock_timestamp())::float8 / 60 as minutes";
    return Math.round((await read<{ minutes: number }>(`select ${wait} from mirror.refetches`))[0]!.minutes);
  };
  await request("BAD");
  for (let failures = 1; failures <= 6; failures += 1) {
    await endWaits();
    const [refetch] = await takeRefetches(pool, { sourceId: "live", limit: 1 });
    const failure = { sourceId: "live", refetch: refetch!, error: "no", firstWaitMs: HOUR * 1_000 };
    told.push(await noteRefetchFailure(pool, failure));
    waits.push(await readMinutes());
  }
  expect(waits).toEqual([60, 120, 240, 480, 360, 360]);
  expect(told).toEqual([false, false, false, false, true, false]);
  await request("BAD");
  expect(await readMinutes()).toBeLessThanOrEqual(0);
  expect(await read("select attempts, failures, last_error from mirror.refetches")).toEqual([
    { attempts: 0, failures: 0, last_error: null },
  ]);
});

it("shows an order in quarantine after some failures, once per request, and until it can be read", async () => {
  for (const reference of ["BAD", "WORSE"]) provider.failing.set(reference, fail("unreadable"));
  await request("BAD", "WORSE");
  const poller = makeSut({ intervalSeconds: 0.02 });
  await hurryUntil(poller, async () => (await readQuarantine()).length === 2);
  const shown = { via: "refetch", reason: "unreadable_singly", detail: "the read is unreadable" };
  expect(await readQuarantine()).toEqual(["BAD", "WORSE"].map((reference) => ({ reference, ...shown })));
  // A retry that fails again adds no row, nor of an order whose entry a person has dismissed.
  await pool.query("update mirror.quarantine set state = 'dismissed' where reference = 'BAD'");
  const failOften = async () => (await readRequests()).every(({ failures }) => Number(failures) > 7);
  await hurryUntil(poller, failOften);
  expect(await readQuarantine()).toEqual([{ reference: "WORSE", ...shown }]);
  // Who asks for it again is told again.
  await request("BAD");
  await hurryUntil(poller, async () => (await readQuarantine()).length === 2);
  provider.failing.clear();
  for (const reference of ["BAD", "WORSE"]) provider.put(reference, secondsAgo(2 * HOUR));
  await hurryUntil(poller, async () => (await readRequests()).length === 0);
  expect(await readQuarantine()).toEqual([]);
  expect(await listReferences()).toEqual(["BAD", "WORSE"]);
});

it("an answer about another order is applied as what it is, and says that what was asked for is missing", async () => {
  await show(secondsAgo(60), [{ reference: "CLAIMED", updatedAt: formatInstant(secondsAgo(2 * HOUR)) }]);
  // REAL has it as its externalOrderId.
  provider.put("REAL", secondsAgo(2 * HOUR), { externalOrderId: "CLAIMED" });
  await request("CLAIMED");
  await poll(makeSut({ client: { ...provider, getOrder: () => provider.getOrder("REAL") } }));
  expect(await listReferences()).toEqual(["CLAIMED", "REAL"]);
  expect(await readExceptions()).toEqual([{ reference: "CLAIMED", kind: "missing" }]);
});

it.each([
  ["rate_limited", 1],
  ["key_refused", 1],
  // R0, R1, a good one, R11, R12, R13.
  ["unavailable", 6],
] as const)("all that fail with %s end their batch but not the cycle", async (failure, reads) => {
  const many = Array.from({ length: MANY }, (_, index) => `R${index}`);
  for (const reference of many) provider.failing.set(reference, fail(failure));
  provider.failing.delete("R10");
  for (const reference of ["R10", "Z"]) provider.put(reference, secondsAgo(2 * HOUR));
  await request(...many, "Z");
  const poller = makeSut({ intervalSeconds: 60 });
  expect(await poll(poller)).toMatchObject({ outcome: "polled", refetches: reads });
  expect((await readPollState(pool, "live"))!.safeThrough).not.toBeNull();
  // A refusal of the rate says nothing about the order.
  const failures = failure === "rate_limited" ? 0 : 1;
  expect(await readRequests()).toContainEqual({ reference: "R0", attempts: failures, failures });
  // A good order behind them has its turn.
  await poller.close();
  if (reads > 1) await pollUntil(makeSut(), async () => (await listReferences()).includes("Z"));
});
