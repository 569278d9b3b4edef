import { makeApply } from "../../src/apply/apply.ts";
import { formatInstant, instantFromMillis, parseInstant } from "../../src/domain/instant.ts";
import type { Pool } from "../../src/mirror/database.ts";
import { silentLogger } from "../../src/runtime/logger.ts";
import { makeSnapshot } from "../support/orders.ts";
import type { Bench } from "./bench.ts";
import { startChild } from "./children.ts";
import type { Child } from "./children.ts";
import { amount } from "./effort.ts";
import { compare } from "./measure.ts";
import type { Figure, Sample, Subject } from "./measure.ts";
import type { ReadOrder } from "./readersProcess.ts";
import { makeEnvironment, startRole } from "./roles.ts";

const ORDERS = amount(1_000_000);
const READERS = 50;
const SINGLE_READS = amount(3_000);
const PAGES = amount(300);
/** Fifty people and programs, each of which reads a few times a second; pages less often than single orders. */
const SINGLE_READS_PER_SECOND = 200;
const PAGES_PER_SECOND = 20;

const WRITES_PER_SECOND = 500;
const WRITE_BATCH = 25;

type Reading = Pick<ReadOrder, "paths" | "requests">;

/** Reading single orders and pages of 200 from a million while 500 changes per second are applied. */
export const benchRead: Bench = async ({ pool, databaseUrl, onEnd }) => {
  await seed(pool);
  const web = await startRole("web", makeEnvironment({ databaseUrl }));
  onEnd(web.stop);
  const bare = await startChild("bareReadProcess.ts", { env: { DATABASE_URL: databaseUrl } });
  onEnd(bare.stop);
  const readers = await startChild("readersProcess.ts");
  onEnd(readers.stop);
  const writing = keepWriting(pool);
  onEnd(() => writing.stop());
  const figures: Figure[] = [];
  for (const { name, goal, perSecond, ...reading } of [POINT, PAGE]) {
    const run = (server: Child, pace?: number) => () =>
      writing.check(() => ask(readers, { base: String(server.greeting), reading, pace }));
    const subject: Subject = { name: `${name}, ${READERS} readers at full speed`, run: run(web) };
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
  perSecond: SINGLE_READS_PER_SECOND,
  // Spread over the whole table by a step that has no factor in common with its size.
  paths: Array.from({ length: 1_000 }, (_, index) => `/v1/orders/S${1 + ((index * 7_919_993) % ORDERS)}`),
  requests: SINGLE_READS,
};
const PAGE = {
  name: "GET /v1/orders?status=…&limit=200",
  goal: "p99 < 20 ms",
  perSecond: PAGES_PER_SECOND,
  paths: ["created", "cancelled", "picked_up"].map((status) => `/v1/orders?status=${status}&limit=200`),
  requests: PAGES,
};

function ask(
  readers: Child,
  options: { base: string; reading: Reading; pace: number | undefined },
): Promise<Sample> {
  const { base, reading, pace } = options;
  const order: ReadOrder = {
    ...reading,
    base,
    connections: READERS,
    ...(pace === undefined ? {} : { perSecond: pace }),
  };
  return readers.ask<Sample>(order);
}

/** Orders as a business has them: most delivered, the others spread; some 700 bytes each. */
async function seed(pool: Pool): Promise<void> {
  const batch = amount(100_000);
  for (let first = 1; first <= ORDERS; first += batch) {
    await pool.query(
      `insert into mirror.orders (source_id, reference, version, settled, observed_at, rank, hash, external_order_id,
         status, updated_at, livemode, fleet_name, branch_id, schedule_mode, pickup_time, delivery_time, raw, history_id,
         first_seen_via)
       select 'live', 'S' || n, (1700000000 + n) * 1000000000, true, 0, 1, '', 'shop-' || n,
         case when n % 50 = 0 then 'created' when n % 50 = 1 then 'picked_up' when n % 20 = 2 then 'cancelled' else 'delivered' end,
         to_timestamp(1700000000 + n), true, 'Fleet ' || n % 20, 'b-' || n % 200, 'asap',
         to_timestamp(1700000600 + n), to_timestamp(1700001800 + n),
         json_build_object('reference', 'S' || n, 'status', 'x', 'note', repeat('x', 600)), n, 'poll'
       from generate_series($1::bigint, least($2::bigint, $1::bigint + $3::bigint - 1)) n`,
      [first, ORDERS, batch],
    );
  }
  await pool.query("vacuum analyze mirror.orders");
}

/** Applies changes of orders at their pace, new versions of a thousand orders in turn, until stopped. */
function keepWriting(pool: Pool) {
  const apply = makeApply({ pool, logger: silentLogger, modes: new Map([["live", "live"]] as const) });
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
      await apply.applyReads({ sourceId: "live", via: "poll", snapshots, requestedAt, settleNanos: 0n });
      applied += WRITE_BATCH;
    }
  })();
  return {
    /** Measures, and says so when fewer changes were applied meanwhile than there should be. */
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
