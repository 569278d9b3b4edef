import { isDeepStrictEqual } from "node:util";
import pg from "pg";
import { expect } from "vitest";
import { queryInstants } from "../../../src/database/database.ts";
import type { Instant } from "../../../src/domain/order/instant.ts";
import { compareKeys, type OrderKey } from "../../../src/domain/order/observation.ts";
import type { FaultProvider } from "../providers/faultProvider.ts";

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
  async function look(provider: Pick<FaultProvider, "readVersions">): Promise<boolean> {
    try {
      // In this sequence: a claim made after the truth was read must hold for that truth.
      const truth = await provider.readVersions();
      const claimed = await readSafeThrough();
      if (claimed < safeThrough && !(await isBreach(pool, safeThrough, claimed)))
        violations.push(`safe_through went back from ${safeThrough} to ${claimed}`);
      safeThrough = claimed;
      for (const key of await readKeys(pool)) {
        const before = keys.get(key.reference);
        if (before && compareKeys(key, before) < 0) violations.push(`${key.reference} went back`);
        keys.set(key.reference, key);
      }
      for (const [reference, version] of truth) {
        const known = keys.get(reference)?.version ?? 0n;
        if (version < claimed && known < version) violations.push(`${reference} is claimed but not there`);
      }
      return true;
    } catch {
      return false;
    }
  }

  /** Waits until each of these events is decided, exactly once, and nothing else waits; the feed then is whole. */
  async function expectDecided(eventIds: ReadonlySet<string>): Promise<void> {
    const undecided = async () => {
      const { rows } = await pool.query<{ id: string }>(
        `select id from unnest($1::text[]) as asked (id) where not exists (
           select from mirror.inbox join mirror.history on inbox_seq = inbox.seq where inbox.event_id = id)`,
        [[...eventIds]],
      );
      return rows.map(({ id }) => id);
    };
    await expect.poll(undecided, { interval: 250 }).toEqual([]);
    await expect
      .poll(async () => (await pool.query("select from mirror.pending")).rowCount, { interval: 250 })
      .toBe(0);
    const { rows } = await pool.query(
      "select inbox_seq, count(*) from mirror.history where inbox_seq is not null group by 1 having count(*) > 1",
    );
    expect(rows).toEqual([]);
    await expectWholeFeed(pool);
  }

  /** Waits until the mirror holds exactly the provider's orders, member for member. */
  async function expectEqual({ readTruth }: Pick<FaultProvider, "readTruth">): Promise<void> {
    const readDifferences = async () => {
      const truth = await readTruth();
      const mirrored = await readSnapshots(pool);
      const differing = [...truth].filter(
        ([reference, order]) => !isDeepStrictEqual(order, mirrored.get(reference)),
      );
      const surplus = [...mirrored].filter(([reference]) => !truth.has(reference));
      return [...differing, ...surplus].map(([reference]) => reference);
    };
    await expect.poll(readDifferences, { interval: 250 }).toEqual([]);
  }

  /**
   * Lets the provider rest, and waits until the mirror is equal to it and proves that. Nothing went back or was claimed
   * falsely meanwhile. Returns the figures of the run, with the requests that were beyond the provider's limits.
   */
  async function expectConverged(provider: FaultProvider) {
    await provider.steer("POST", "/dials", { speed: 0, ordersPerMinute: 0 });
    const quietAt = provider.sandbox.now();
    await expectEqual(provider);
    await expect.poll(async () => (await readSafeThrough()) > quietAt, { interval: 250 }).toBe(true);
    await expectWholeFeed(pool);
    expect(await look(provider)).toBe(true);
    expect(violations).toEqual([]);
    const [{ size: orders }, refused429] = [await provider.readTruth(), await provider.countAnswers(429)];
    return { orders, missing: 0, refused429 };
  }

  /** The instant before which the mirror claims every change; 0 if none. */
  async function readSafeThrough(): Promise<Instant> {
    const [state] = await queryInstants<{ safe: Instant | null }>(
      pool,
      "select safe_through as safe from mirror.poll_state where source_id = 'live'",
    );
    return state?.safe ?? 0n;
  }

  const close = () => pool.end();
  return { pool, look, violations, expectDecided, expectEqual, expectConverged, readSafeThrough, close };
}

/** Every revision of every order is in the feed once. */
async function expectWholeFeed(pool: pg.Pool): Promise<void> {
  const { rows } = await pool.query(
    `select reference, count(*), max(revision) from mirror.changes group by source_id, reference
     having count(*) <> max(revision) or count(*) <> count(distinct revision)`,
  );
  expect(rows).toEqual([]);
}

/** A recorded breach explains why the claim went back. */
async function isBreach(pool: pg.Pool, from: Instant, to: Instant): Promise<boolean> {
  const { rowCount } = await pool.query(
    "select from mirror.coverage_breaches where safe_through_before >= $1 and safe_through_after <= $2",
    [from, to],
  );
  return (rowCount ?? 0) > 0;
}

async function readSnapshots(pool: pg.Pool): Promise<Map<string, unknown>> {
  const { rows } = await pool.query<{ reference: string; raw: unknown }>(
    "select reference, raw from mirror.orders",
  );
  return new Map(rows.map(({ reference, raw }) => [reference, raw]));
}

function readKeys(pool: pg.Pool): Promise<(OrderKey & { readonly reference: string })[]> {
  return queryInstants(
    pool,
    `select reference, horizon, gone_at is not null as gone, version, settled, observed_at as "observedAt", rank,
       encode(hash, 'hex') as hash from mirror.orders`,
  );
}
