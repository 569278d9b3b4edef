import { makePool } from "../../../src/database/database.ts";
import type { Pool } from "../../../src/database/database.ts";
import { formatInstant, instantFromMillis, parseInstant } from "../../../src/domain/order/instant.ts";
import type { Snapshot } from "../../../src/domain/order/order.ts";
import { readUnlisted } from "../../../src/poll/ledger/comparedOrders.sql.ts";
import { makeRemoveChanges, removeHistory } from "../../../src/retention/retention.sql.ts";
import type { RetentionRule } from "../../../src/retention/retention.sql.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { makeSnapshot, readAt } from "../../support/mirror/orders.ts";
import type { Bench, BenchDeps } from "../bench.ts";
import { amount } from "../effort.ts";
import { fillManyOrders, versionOf } from "../manyOrders.ts";
import { compare, median } from "../measure.ts";
import type { Figure, Sample } from "../measure.ts";
import { makeEnvironment, startRole } from "../roles.ts";

const SECTION = "ten-million";
const FEW = amount(1_000_000);
const MANY = 10 * FEW;
const BATCH = 100;
const PAGE = 200;
const FEED_PAGE = 500;
const STEP_ROWS = 2_000;
const GOAL = "at most 1.5 of the limit";

/** A mirror with so many orders, and a web process that reads it. */
interface Mirror {
  readonly orders: number;
  readonly pool: Pool;
  readonly base: string;
}

/** What takes longer with ten million orders than with a tenth of them. */
export const benchTenMillion: Bench = async (deps) => {
  const few = await openMirror(deps, { name: "few", orders: FEW });
  const many = await openMirror(deps, { name: "many", orders: MANY });
  const figures: Figure[] = [];
  for (const { name, times, once } of MEASURED) {
    const subject = (mirror: Mirror, shown: string) => ({
      name: `${shown}${name}, ${mirror.orders} orders`,
      goal: mirror === many ? GOAL : "",
      run: () => timeEach(times, () => once(mirror)),
    });
    const [subjects, limit] = [[subject(many, "")], subject(few, "limit: ")];
    figures.push(...(await compare({ section: SECTION, unit: "ms", subjects, limit })));
  }
  return figures;
};

async function openMirror(
  { addDatabase, onEnd }: BenchDeps,
  { name, orders }: { name: string; orders: number },
): Promise<Mirror> {
  const databaseUrl = await addDatabase(name);
  const startedMs = performance.now();
  await fillManyOrders(databaseUrl, orders);
  const seconds = Math.round((performance.now() - startedMs) / 1_000);
  process.stderr.write(`  ${SECTION} · ${orders} orders were made in ${seconds} s\n`);
  const options = { url: databaseUrl, purpose: "bench", max: 2, statementTimeoutMs: 60_000 };
  const pool = makePool({ ...options, keepsPlans: true, plansForAnyValues: true });
  onEnd(() => pool.end());
  const web = await startRole("web", makeEnvironment({ databaseUrl }));
  onEnd(web.stop);
  return { orders, pool, base: String(web.greeting) };
}

interface Measurement {
  readonly name: string;
  /** How often it is timed in a run, whose value is the median. */
  readonly times: number;
  readonly once: (mirror: Mirror) => Promise<void>;
}

const MEASURED: readonly Measurement[] = [
  { name: `apply changes of ${BATCH} orders`, times: amount(20), once: applyChanges },
  { name: "GET /v1/orders/{reference}", times: amount(200), once: readOne },
  { name: `GET /v1/orders?status=…&updatedSince=…&limit=${PAGE}`, times: amount(50), once: readPage },
  { name: `GET /v1/changes?limit=${FEED_PAGE}`, times: amount(20), once: makeReadFeed() },
  { name: "GET /ops", times: amount(10), once: readOverview },
  { name: `verify a page of ${PAGE}`, times: amount(20), once: makeVerify() },
  { name: `retention, ${STEP_ROWS} rows of the history`, times: 5, once: makeRetention(removeHistory) },
  { name: `retention, ${STEP_ROWS} changes`, times: 5, once: makeRetention(makeRemoveChanges(0)) },
];

async function timeEach(times: number, once: () => Promise<void>): Promise<Sample> {
  const spansMs: number[] = [];
  for (let time = 0; time < times; time += 1) {
    const startedMs = performance.now();
    await once();
    spansMs.push(performance.now() - startedMs);
  }
  return { value: median(spansMs), errors: 0 };
}

/** The number of any order. */
function pick({ orders }: Mirror): number {
  return 1 + Math.floor(Math.random() * orders);
}

async function applyChanges(mirror: Mirror): Promise<void> {
  const updatedAt = formatInstant(instantFromMillis(Date.now()));
  const snapshots = Array.from({ length: BATCH }, () => makeChange(pick(mirror), updatedAt));
  await applyReads(mirror, { via: "poll", snapshots, updatedAt });
}

function makeChange(number: number, updatedAt: string): Snapshot {
  return makeSnapshot({ reference: `S${number}`, updatedAt, more: { note: "x".repeat(400) } });
}

async function applyReads(
  { pool }: Mirror,
  read: { via: "poll" | "verify"; snapshots: readonly Snapshot[]; updatedAt: string },
): Promise<void> {
  const { via, snapshots, updatedAt } = read;
  const time = readAt(parseInstant(updatedAt));
  await makeLiveApply(pool).applyReads({ sourceId: "live", via, snapshots, time });
}

async function readOne(mirror: Mirror): Promise<void> {
  await ask(mirror, `/v1/orders/S${pick(mirror)}`);
}

async function readPage(mirror: Mirror): Promise<void> {
  const [since, until] = [versionOf(pick(mirror)), versionOf(mirror.orders + 1)].map(formatInstant);
  await ask(mirror, `/v1/orders?status=delivered&updatedSince=${since}&updatedUntil=${until}&limit=${PAGE}`);
}

async function readOverview(mirror: Mirror): Promise<void> {
  await ask(mirror, "/ops");
}

/** One page after another, from the beginning. */
function makeReadFeed(): Measurement["once"] {
  const next = new Map<Mirror, string>();
  return async (mirror) => {
    const text = await ask(mirror, `/v1/changes?limit=${FEED_PAGE}&after=${next.get(mirror) ?? ""}`);
    next.set(mirror, (JSON.parse(text) as { next: string }).next);
  };
}

/** A page that shows what the mirror has: the orders of a period, which an earlier page has brought. */
function makeVerify(): Measurement["once"] {
  const known = new Map<Mirror, { snapshots: Snapshot[]; updatedAt: string }>();
  return async (mirror) => {
    const { snapshots, updatedAt } = known.get(mirror) ?? (await bringPage(mirror));
    known.set(mirror, { snapshots, updatedAt });
    await applyReads(mirror, { via: "verify", snapshots, updatedAt });
    const since = parseInstant(updatedAt);
    const listed = snapshots.map(({ fields }) => fields.reference);
    const window = { since, until: since + 1n };
    const { total } = await readUnlisted(mirror.pool, { sourceId: "live", window, listed, limit: PAGE });
    if (total > 0) throw new Error(`${total} orders were not listed`);
  };
}

async function bringPage(mirror: Mirror): Promise<{ snapshots: Snapshot[]; updatedAt: string }> {
  const updatedAt = formatInstant(instantFromMillis(Date.now()));
  const numbers = new Set<number>();
  while (numbers.size < PAGE) numbers.add(pick(mirror));
  const snapshots = [...numbers].map((number) => makeChange(number, updatedAt));
  await applyReads(mirror, { via: "poll", snapshots, updatedAt });
  return { snapshots, updatedAt };
}

/** A step: half of the rows are old enough. */
function makeRetention(rule: RetentionRule): Measurement["once"] {
  return async (mirror) => {
    const cutoff = versionOf(mirror.orders / 2);
    const { looked } = await rule(mirror.pool, { cutoff, limit: STEP_ROWS });
    if (looked === 0) throw new Error("nothing was old enough");
  };
}

async function ask({ base }: Mirror, path: string): Promise<string> {
  const answer = await fetch(base + path, { headers: { accept: "application/json, text/html" } });
  const text = await answer.text();
  if (answer.status !== 200)
    throw new Error(`${path} was answered with ${answer.status}: ${text.slice(0, 200)}`);
  return text;
}
