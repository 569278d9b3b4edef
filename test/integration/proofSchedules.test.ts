import fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import { makeApply } from "../../src/apply/apply.ts";
import { makePool } from "../../src/database/database.ts";
import type { Pool } from "../../src/database/database.ts";
import { formatInstant } from "../../src/domain/order/instant.ts";
import { makePoller } from "../../src/poll/leader/poller.ts";
import type { Poller } from "../../src/poll/leader/poller.ts";
import { requestPeriod } from "../../src/poll/ledger/periodRequests.sql.ts";
import type { Clock } from "../../src/runtime/lifecycle/clock.ts";
import { silentLogger } from "../../src/runtime/telemetry/logger.ts";
import { makeTestDatabase } from "../support/database.ts";
import type { TestDatabase } from "../support/database.ts";
import { addSource, makeEventBody, putIntoInbox } from "../support/orders.ts";
import { makeScheduledProvider } from "../support/scheduledProvider.ts";
import type { ScheduledProvider } from "../support/scheduledProvider.ts";
import { makeClockVirtual } from "../support/virtualTime.ts";
import { deliveryEvents } from "../../src/wire/events.ts";

/**
 * Whole pollers over a real Postgres, in virtual time, on schedules that nobody thought of. `PROOF_SCHEDULES=2000` runs as
 * many of them, `PROOF_SEED` chooses others; a failure prints the schedule.
 */
const SCHEDULES = Number(process.env["PROOF_SCHEDULES"] ?? 25);
const SEED = Number(process.env["PROOF_SEED"] ?? 20_261_122);
const START = 1_790_000_000n * 1_000_000_000n;
const INTERVAL = 30;
const nanos = (seconds: number) => BigInt(seconds) * 1_000_000_000n;

const order = fc.constantFrom("A", "B", "C", "D", "E");
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("change" as const),
      order,
      skew: fc.constantFrom(0, 0, 0, -40),
      told: fc.boolean(),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("lie" as const),
      order: fc.oneof(order, fc.constant("INVENTED")),
      age: fc.constantFrom(-7_200, -60, 1, 100, 1_000, 7_200),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("restart" as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("lag" as const), seconds: fc.constantFrom(0, 30, 700) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("goBack" as const), seconds: fc.constantFrom(60, 900) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("poison" as const), order }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("garble" as const), order }) },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant("wait" as const), seconds: fc.constantFrom(60, 300, 1_000) }),
  },
);
type Step = typeof step extends fc.Arbitrary<infer One> ? One : never;

let database: TestDatabase;
let pool: Pool;
let instant = START;
beforeAll(async () => {
  database = await makeTestDatabase();
  await makeClockVirtual(database.pool);
  pool = makePool({ url: database.url, purpose: "poll", max: 4, statementTimeoutMs: 30_000 });
  await addSource(pool, "live");
});
afterAll(async () => {
  await pool.end();
  await database.drop();
});

let sleepers: { readonly until: bigint; readonly wake: () => void }[] = [];

async function advance(seconds: number): Promise<void> {
  instant += nanos(seconds);
  const due = sleepers.filter(({ until }) => until <= instant);
  sleepers = sleepers.filter(({ until }) => until > instant);
  for (const { wake } of due) wake();
  await database.pool.query("select setval('virtual.micros', $1)", [instant / 1_000n]);
}

const clock: Clock = {
  now: () => instant,
  monotonicMs: () => Number(instant - START) / 1e6,
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      sleepers.push({ until: instant + BigInt(Math.ceil(ms)) * 1_000_000n, wake: resolve });
      signal?.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
    }),
};

async function begin(): Promise<ScheduledProvider> {
  // A source of its own day: what the schedule before left is gone.
  await pool.query(`truncate mirror.orders, mirror.history, mirror.changes, mirror.pending, mirror.inbox, mirror.quarantine,
    mirror.refetches, mirror.coverage, mirror.coverage_breaches, mirror.walks, mirror.walk_pages, mirror.poll_state,
    mirror.leases, mirror.period_requests, mirror.arrivals, mirror.open_order_checks`);
  await advance(86_400);
  return makeScheduledProvider(() => instant);
}

let holders = 0;
function startPoller(provider: ScheduledProvider): Poller {
  return makePoller({
    source: { sourceId: "live" },
    client: provider,
    pool,
    apply,
    clock,
    logger: silentLogger,
    intervalSeconds: INTERVAL,
    settleSeconds: 5,
    overlapSeconds: 60,
    backfillSince: "PT3H",
    pace: "cycle",
    holder: `process ${(holders += 1)}`,
    rateWindowMs: 0,
    // Time passes in steps, between which nobody renews; a process that ends gives the lease up.
    leaseTtlMs: 7 * 86_400_000,
  });
}

const modes = new Map([["live", "live"]] as const);
const apply = {
  applyReads: (...reads: Parameters<ReturnType<typeof makeApply>["applyReads"]>) =>
    makeApply({ events: deliveryEvents, pool, logger: silentLogger, modes }).applyReads(...reads),
  applyEvents: (seqs: readonly number[]) =>
    makeApply({ events: deliveryEvents, pool, logger: silentLogger, modes }).applyEvents(seqs),
};

let events = 0;
async function deliver(reference: string, change: { updatedAt: bigint; status: string }): Promise<void> {
  const id = `evt_${(events += 1)}`;
  const body = makeEventBody({
    id,
    created: formatInstant(instant),
    order: { reference, status: change.status, updatedAt: formatInstant(change.updatedAt) },
  });
  await apply.applyEvents(await putIntoInbox(pool, [{ eventId: id, body }]));
}

async function take(one: Step, provider: ScheduledProvider): Promise<void> {
  switch (one.kind) {
    case "change": {
      const change = provider.change(one.order, one.skew);
      return one.told ? deliver(one.order, change) : undefined;
    }
    case "lie":
      return deliver(one.order, { updatedAt: instant - nanos(one.age), status: "a lie" });
    case "lag":
      provider.lagSeconds = one.seconds;
      return;
    case "goBack":
      provider.goBack(one.seconds);
      return;
    case "poison":
      provider.poisoned.add(one.order);
      return;
    case "garble":
      provider.garbled.add(one.order);
      return;
    case "wait":
      return advance(one.seconds);
    case "restart":
      return;
    default: {
      const never: never = one;
      return never;
    }
  }
}

interface Claim {
  readonly safeThrough: bigint;
  readonly breaches: number;
}

async function readClaim(): Promise<Claim> {
  const { rows } = await pool.query<{ safe: string | null; breaches: number }>(
    `select (select safe_through from mirror.poll_state where source_id = 'live') as safe,
       (select count(*) from mirror.coverage_breaches)::int as breaches`,
  );
  return { safeThrough: BigInt(rows[0]?.safe ?? 0), breaches: rows[0]?.breaches ?? 0 };
}

async function readServed(): Promise<Map<string, { updatedAt: bigint; status: string }>> {
  const { rows } = await pool.query<{ reference: string; version: string; status: string }>(
    "select reference, version, status from mirror.orders where gone_at is null",
  );
  return new Map(
    rows.map(({ reference, version, status }) => [reference, { updatedAt: BigInt(version), status }]),
  );
}

/** Orders that the proof speaks of and the mirror has otherwise, apart from exceptions; for a provider that keeps its word. */
async function listFalse(provider: ScheduledProvider, { safeThrough }: Claim): Promise<string[]> {
  const served = await readServed();
  const { rows } = await pool.query<{ reference: string | null }>("select reference from mirror.exceptions");
  const excepted = new Set(rows.map(({ reference }) => reference));
  return [...provider.truth()]
    .filter(([reference, { updatedAt }]) => updatedAt < safeThrough && !excepted.has(reference))
    .filter(([reference, { updatedAt }]) => (served.get(reference)?.updatedAt ?? 0n) < updatedAt)
    .map(([reference]) => reference);
}

async function runSchedule(steps: readonly Step[]): Promise<void> {
  const provider = await begin();
  provider.change("A", 0);
  let poller = startPoller(provider);
  let claim: Claim = { safeThrough: 0n, breaches: 0 };
  let keepsItsWord = true;
  const cycle = async () => {
    await advance(INTERVAL);
    await poller.runOnce();
    const next = await readClaim();
    const wentBack = next.safeThrough < claim.safeThrough && next.breaches === claim.breaches;
    expect(wentBack, "safe_through goes back only by a recorded breach").toBe(false);
    claim = next;
    const untrue = keepsItsWord ? await listFalse(provider, claim) : [];
    expect(untrue, "claimed, and not there").toEqual([]);
  };
  await cycle();
  for (const one of steps) {
    // A list that lags or goes back breaks what a proof rests on: nothing that was seen tells of it yet.
    keepsItsWord &&= one.kind !== "lag" && one.kind !== "goBack";
    await take(one, provider);
    if (one.kind === "restart") {
      await poller.close();
      poller = startPoller(provider);
    }
    await cycle();
  }
  keepsItsWord = false;
  provider.lagSeconds = 0;
  provider.poisoned.clear();
  provider.garbled.clear();
  // Longer than the longest margin that late arrivals can teach: four hours.
  await advance(5 * 3_600);
  await cycle();
  const period = { since: instant - nanos(86_400), until: instant };
  await requestPeriod(pool, { kind: "verification", sourceId: "live", ...period, sample: null });
  for (let cycles = 0; cycles < 6; cycles += 1) await cycle();
  await poller.close();
  expect(await readServed()).toEqual(provider.truth());
}

it(
  `ends as the provider on ${SCHEDULES} schedules, and never claims what is known to be false`,
  { timeout: 60_000 + SCHEDULES * 4_000 },
  async () => {
    await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 12 }), runSchedule), {
      numRuns: SCHEDULES,
      seed: SEED,
      endOnFailure: true,
    });
  },
);
