import { makeApply } from "../../../src/apply/apply.ts";
import { formatInstant, instantFromMillis, parseInstant } from "../../../src/domain/order/instant.ts";
import type { Pool } from "../../../src/database/database.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { makeSnapshot, readAt } from "../../support/mirror/orders.ts";
import type { Bench } from "../bench.ts";
import { startChild } from "../children.ts";
import type { Child } from "../children.ts";
import { amount } from "../effort.ts";
import { compare } from "../measure.ts";
import type { Figure, Sample, Subject } from "../measure.ts";
import { fillOrders, ORDERS, timeOfOrder } from "../millionOrders.ts";
import type { ReadOrder } from "../processes/readersProcess.ts";
import { makeEnvironment, startRole } from "../roles.ts";
import { deliveryEvents } from "../../../src/wire/events.ts";

const READERS = 50;
const SINGLE_READS = amount(3_000);
const PAGES = amount(300);
/** Fifty people and programs, each of which reads four orders a second, or a page every two or three seconds. */
const SINGLE_READS_PER_SECOND = 200;
const PAGES_PER_SECOND = 20;

const PERIOD_ORDERS = amount(2_700);

const WRITES_PER_SECOND = 500;
const WRITE_BATCH = 25;

type Reading = Pick<ReadOrder, "paths" | "requests">;

/** Reading single orders and pages of 200 from a million while 500 changes per second are applied. */
export const benchRead: Bench = async ({ pool, databaseUrl, onEnd }) => {
  await fillOrders(pool);
  const web = await startRole("web", makeEnvironment({ databaseUrl }));
  onEnd(web.stop);
  const bare = await startChild("bareReadProcess.ts", { env: { DATABASE_URL: databaseUrl } });
  onEnd(bare.stop);
  const readers = await startChild("readersProcess.ts");
  onEnd(readers.stop);
  const writing = keepWriting(pool);
  onEnd(() => writing.stop());
  const figures: Figure[] = [];
  for (const { name, goal, goalAtFullSpeed, perSecond, ...reading } of [POINT, PAGE]) {
    const run = (server: Child, pace?: number) => () =>
      writing.check(() => ask(readers, { base: String(server.greeting), reading, pace }));
    const subject: Subject = {
      name: `${name}, ${READERS} readers at full speed`,
      goal: goalAtFullSpeed,
      run: run(web),
    };
    const limit: Subject = { name: `limit: the same statement in a bare handler`, run: run(bare) };
    figures.push(...(await compare({ section: "read", unit: "/s", subjects: [subject], limit })));
    const paced: Subject = {
      name: `${name}, ${READERS} readers, ${perSecond}/s`,
      goal,
      run: run(web, perSecond),
    };
    figures.push(...(await compare({ section: "read", unit: "/s", subjects: [paced] })));
  }
  return figures;
};

const POINT = {
  name: "GET /v1/orders/{reference}",
  goal: "p99 < 5 ms",
  goalAtFullSpeed: "at least 0.6 of the limit",
  perSecond: SINGLE_READS_PER_SECOND,
  paths: Array.from({ length: 1_000 }, (_, index) => `/v1/orders/S${1 + spread(index, ORDERS)}`),
  requests: SINGLE_READS,
};
const PAGE = {
  name: "GET /v1/orders?…&limit=200",
  goal: "p99 < 20 ms",
  goalAtFullSpeed: "at least 0.85 of the limit",
  perSecond: PAGES_PER_SECOND,
  paths: Array.from({ length: 100 }, (_, index) => `/v1/orders?${writeFilter(index)}&limit=200`),
  requests: PAGES,
};

/** Places all over the table, by a step that has no common factor with its size. */
function spread(index: number, places: number): number {
  return (index * 7_919_993) % places;
}

/** Queries of back offices: a status, one day's orders of a year, a fleet. */
function writeFilter(index: number): string {
  const from = spread(index, ORDERS - PERIOD_ORDERS);
  const [since, until] = [timeOfOrder(from), timeOfOrder(from + PERIOD_ORDERS)].map(formatTime);
  const filters = [
    "status=created",
    `status=delivered&updatedSince=${since}&updatedUntil=${until}`,
    `status=delivered&pickupFrom=${since}&pickupUntil=${until}`,
    `pickupFrom=${since}&pickupUntil=${until}&sort=pickupTime`,
    `fleet=Fleet%20${index % 20}&updatedSince=${since}&updatedUntil=${until}`,
  ];
  return filters[index % filters.length] ?? "";
}

function formatTime(seconds: number): string {
  return formatInstant(instantFromMillis(seconds * 1_000));
}

function ask(
  readers: Child,
  options: { base: string; reading: Reading; pace: number | undefined },
): Promise<Sample> {
  const { base, reading, pace } = options;
  const order: ReadOrder = {
    ...reading,
    base,
    readers: READERS,
    ...(pace === undefined ? {} : { perSecond: pace }),
  };
  return readers.ask<Sample>(order);
}

/** Applies changes of orders at their pace, new versions of a thousand orders in turn, until stopped. */
function keepWriting(pool: Pool) {
  const apply = makeApply({
    events: deliveryEvents,
    pool,
    logger: silentLogger,
    modes: new Map([["live", "live"]] as const),
  });
  let going = true;
  let applied = 0;
  const running = (async () => {
    const startedMs = performance.now();
    for (let round = 0; going; round += 1) {
      const dueMs = startedMs + (round * WRITE_BATCH * 1_000) / WRITES_PER_SECOND;
      const waitMs = dueMs - performance.now();
      if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
      const updatedAt = formatInstant(instantFromMillis(Date.now()));
      const snapshots = Array.from({ length: WRITE_BATCH }, (_, index) =>
        makeSnapshot({ reference: `W${(round * WRITE_BATCH + index) % 1_000}`, updatedAt, more: { round } }),
      );
      const requestedAt = parseInstant(updatedAt);
      await apply.applyReads({ sourceId: "live", via: "poll", snapshots, time: readAt(requestedAt) });
      applied += WRITE_BATCH;
    }
  })();
  return {
    /** Measures, and reports when fewer changes than intended were applied meanwhile. */
    async check(measure: () => Promise<Sample>): Promise<Sample> {
      const [before, startedMs] = [applied, performance.now()];
      const sample = await measure();
      const perSecond = (applied - before) / ((performance.now() - startedMs) / 1_000);
      if (perSecond < WRITES_PER_SECOND * 0.9) {
        process.stderr.write(`  only ${Math.round(perSecond)} changes/s were applied meanwhile\n`);
      }
      return sample;
    },
    async stop() {
      going = false;
      await running;
    },
  };
}
