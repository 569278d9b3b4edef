import { createHash } from "node:crypto";
import { insertEvents } from "../../../src/receive/commit/inbox.sql.ts";
import type { Pool } from "../../../src/database/database.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { at, makeEventBody } from "../../support/mirror/orders.ts";
import type { Bench } from "../bench.ts";
import { amount } from "../effort.ts";
import { compare } from "../measure.ts";

const ORDERS = amount(2_000);
const EVENTS_PER_ORDER = 5;
const BATCH = 100;

interface Volume {
  readonly walBytes: number;
  readonly diskBytes: number;
  readonly rawBytes: number;
}

let round = 0;

/** The cost of an order with five events: write-ahead log, and space in the tables with all their indexes. */
export const benchVolume: Bench = async ({ pool }) => {
  let latest: Volume = { walBytes: 0, diskBytes: 0, rawBytes: 0 };
  const subject = (name: string, read: (volume: Volume) => number, isFirst = false) => ({
    name,
    run: async () => {
      // One load measures all three.
      if (isFirst) latest = await writeOrders(pool);
      return { value: read(latest) / 1_000 / ORDERS, errors: 0 };
    },
  });
  return compare({
    section: "volume",
    unit: "kB per order",
    subjects: [
      subject("write-ahead log", ({ walBytes }) => walBytes, true),
      subject("disk, before retention removes anything", ({ diskBytes }) => diskBytes),
    ],
    limit: subject("limit: the bytes of its five events", ({ rawBytes }) => rawBytes),
  });
};

async function writeOrders(pool: Pool): Promise<Volume> {
  round += 1;
  const apply = makeLiveApply(pool);
  const before = await measure(pool);
  let rawBytes = 0;
  for (let step = 0; step < EVENTS_PER_ORDER; step += 1) {
    for (let start = 0; start < ORDERS; start += BATCH) {
      const events = Array.from({ length: Math.min(BATCH, ORDERS - start) }, (_, index) => {
        const eventId = `evt_${round}_${start + index}_${step}`;
        const order = {
          reference: `R${round}-${start + index}`,
          updatedAt: at(step),
          more: { note: "x".repeat(300) },
        };
        const body = makeEventBody({ id: eventId, order });
        const bodyHash = createHash("sha256").update(body).digest();
        return { sourceId: "live", eventId, body, bodyHash, secretIndex: 0 };
      });
      rawBytes += events.reduce((sum, { body }) => sum + body.length, 0);
      const stored = await insertEvents(pool, events);
      await apply.applyEvents(stored.map(({ seq }) => seq));
    }
  }
  const after = await measure(pool);
  return { walBytes: after.wal - before.wal, diskBytes: after.disk - before.disk, rawBytes };
}

/** After a vacuum, so that free space is reused before more is allocated. */
async function measure(pool: Pool): Promise<{ wal: number; disk: number }> {
  const wal = await pool.query<{ bytes: string }>(
    "select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') as bytes",
  );
  await pool.query("vacuum analyze");
  const disk = await pool.query<{ bytes: string }>(
    `select sum(pg_total_relation_size(oid)) as bytes from pg_class
     where relnamespace = 'mirror'::regnamespace and relkind in ('r', 'm')`,
  );
  return { wal: Number(wal.rows[0]?.bytes), disk: Number(disk.rows[0]?.bytes) };
}
