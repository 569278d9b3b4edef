import { isDeepStrictEqual } from "node:util";
import pg from "pg";
import { expect } from "vitest";
import { compareKeys, type OrderKey } from "../../../src/domain/order/observation.ts";

const PATIENCE = { timeout: 120_000, interval: 250 };

export type MirrorAudit = ReturnType<typeof makeMirrorAudit>;

/** Observes the mirror directly, without proxies, and remembers what it saw. */
export function makeMirrorAudit(url: string) {
  const pool = new pg.Pool({
    connectionString: url,
    max: 2,
    connectionTimeoutMillis: 2_000,
    query_timeout: 10_000,
  });
  // Its server is killed on purpose.
  pool.on("error", () => undefined);
  const keys = new Map<string, OrderKey>();
  /** An order that went back, safe_through that went back without a recorded breach, or a false claim. */
  const violations: string[] = [];
  let safeThrough = 0n;

  /** Checks every order and safe_through once. Returns false, without a check, when the mirror is unreachable. */
  async function look(readTruth?: () => Promise<ReadonlyMap<string, bigint>>): Promise<boolean> {
    try {
      // In this sequence: a claim made after the truth was read must hold for that truth.
      const truth = await readTruth?.();
      const claimed = await readSafeThrough(pool);
      if (claimed < safeThrough && !(await isBreach(pool, safeThrough, claimed)))
        violations.push(`safe_through went back from ${safeThrough} to ${claimed}`);
      safeThrough = claimed;
      for (const [reference, key] of await readKeys(pool)) {
        const before = keys.get(reference);
        if (before && compareKeys(key, before) < 0) violations.push(`${reference} went back`);
        keys.set(reference, key);
      }
      for (const [reference, version] of truth ?? []) {
        const known = keys.get(reference)?.version ?? 0n;
        if (version < claimed && known < version) violations.push(`${reference} is claimed but not there`);
      }
      return true;
    } catch {
      return false;
    }
  }

  /** Waits until each of these events is decided, exactly once, and nothing else waits. */
  async function expectDecided(eventIds: ReadonlySet<string>): Promise<void> {
    const undecided = async () => {
      const { rows } = await pool.query<{ id: string }>(
        `select id from unnest($1::text[]) as asked (id) where not exists (
           select from mirror.inbox join mirror.history on inbox_seq = inbox.seq where inbox.event_id = id)`,
        [[...eventIds]],
      );
      return rows.map(({ id }) => id);
    };
    await expect.poll(undecided, PATIENCE).toEqual([]);
    await expect
      .poll(async () => (await pool.query("select from mirror.pending")).rowCount, PATIENCE)
      .toBe(0);
    const { rows } = await pool.query(
      "select inbox_seq, count(*) from mirror.history where inbox_seq is not null group by 1 having count(*) > 1",
    );
    expect(rows).toEqual([]);
  }

  /** Waits until the mirror holds exactly these orders, member for member. */
  async function expectEqual(readTruth: () => Promise<ReadonlyMap<string, unknown>>): Promise<void> {
    const readDifferences = async () => {
      const truth = await readTruth();
      const mirrored = await readSnapshots(pool);
      const differing = [...truth].filter(
        ([reference, order]) => !isDeepStrictEqual(order, mirrored.get(reference)),
      );
      const surplus = [...mirrored].filter(([reference]) => !truth.has(reference));
      return [...differing, ...surplus].map(([reference]) => reference);
    };
    await expect.poll(readDifferences, PATIENCE).toEqual([]);
  }

  /** Waits until safe_through has passed this instant. */
  async function expectSafe(instant: bigint): Promise<void> {
    const isSafe = async () => (await readSafeThrough(pool)) > instant;
    await expect.poll(isSafe, PATIENCE).toBe(true);
  }

  /** Every revision of every order is in the feed once. */
  async function expectWholeFeed(): Promise<void> {
    const { rows } = await pool.query(
      `select reference, count(*), max(revision) from mirror.changes group by source_id, reference
       having count(*) <> max(revision) or count(*) <> count(distinct revision)`,
    );
    expect(rows).toEqual([]);
  }

  const close = () => pool.end();
  return { pool, look, violations, expectDecided, expectEqual, expectSafe, expectWholeFeed, close };
}

/** A recorded breach explains why the claim went back. */
async function isBreach(pool: pg.Pool, from: bigint, to: bigint): Promise<boolean> {
  const { rowCount } = await pool.query(
    "select from mirror.coverage_breaches where safe_through_before >= $1 and safe_through_after <= $2",
    [from, to],
  );
  return (rowCount ?? 0) > 0;
}

export async function readSafeThrough(pool: pg.Pool): Promise<bigint> {
  const { rows } = await pool.query<{ safe_through: string | null }>(
    "select safe_through from mirror.poll_state where source_id = 'live'",
  );
  return BigInt(rows[0]?.safe_through ?? 0);
}

async function readSnapshots(pool: pg.Pool): Promise<Map<string, unknown>> {
  const { rows } = await pool.query<{ reference: string; raw: unknown }>(
    "select reference, raw from mirror.orders",
  );
  return new Map(rows.map(({ reference, raw }) => [reference, raw]));
}

async function readKeys(pool: pg.Pool): Promise<[string, OrderKey][]> {
  const { rows } = await pool.query<{
    reference: string;
    horizon: string | null;
    gone: boolean;
    version: string;
    settled: boolean;
    observed_at: string;
    rank: number;
    hash: string;
  }>(
    `select reference, horizon, gone_at is not null as gone, version, settled, observed_at, rank,
       encode(hash, 'hex') as hash from mirror.orders`,
  );
  return rows.map(({ reference, horizon, version, observed_at, ...rest }) => [
    reference,
    {
      ...rest,
      horizon: horizon === null ? null : BigInt(horizon),
      version: BigInt(version),
      observedAt: BigInt(observed_at),
    },
  ]);
}
