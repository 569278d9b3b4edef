import fc from "fast-check";
import { beforeEach, describe, expect, it } from "vitest";
import { acquireLease, renewLease } from "../../../src/database/leases.sql.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { at, putIntoInbox } from "../../support/mirror/orders.ts";
import { removeOlder, type TestPass } from "../../support/mirror/retention.ts";
import { EMPTY_MIRROR } from "../../support/mirror/tables.ts";

const { pool, apply, show } = await openLiveMirror();
beforeEach(() => clear());

const clear = () => pool.query(EMPTY_MIRROR);
const KEPT_DAYS = 7;
const HISTORY_ONLY = { what: "history", keptFor: { historyKeptFor: `P${KEPT_DAYS}D` } };
const removeFromHistory = (pass: TestPass = {}) => removeOlder(pool, { ...HISTORY_ONLY, ...pass });
const ageBy = (hours: number) =>
  pool.query("update mirror.history set seen_at = seen_at - make_interval(hours => $1)", [hours]);
const read = (reference: string, version: number) =>
  show(parseInstant(at(version)), [{ reference, updatedAt: at(version), status: `status ${version}` }], {
    via: "refetch",
    marginSeconds: 5,
  });

describe("a pass through the history", () => {
  it("reads no rows that had to stay for a day, however many they are, and then removes what may go", async () => {
    await pool.query(`
      insert into mirror.history (source_id, reference, via, verdict, version, seen_at)
        select 'live', 'R' || n, 'poll', 'applied', n, now() - interval '10 days' from generate_series(1, 5000) n;
      insert into mirror.orders (source_id, reference, version, settled, observed_at, rank, hash, status, updated_at, raw,
          history_id, first_seen_via)
        select source_id, reference, version, true, 1, 1, '', 'created', now(), '{}', history_id, 'poll' from mirror.history`);
    expect(await removeFromHistory()).toEqual({ looked: 5_000, removed: 0 });
    const sameDay = true;
    expect(await removeFromHistory({ sameDay })).toEqual({ looked: 0, removed: 0 });
    await read("R1", 9_999);
    expect(await removeFromHistory({ sameDay })).toEqual({ looked: 1, removed: 0 });
    expect(await removeFromHistory()).toEqual({ looked: 5_001, removed: 1 });
  });

  it("removes all old rows that no order shows, in any sequence of new and aging rows", async () => {
    const step = fc.oneof(
      { weight: 6, arbitrary: fc.record({ order: fc.nat(3), version: fc.integer({ min: 1, max: 30 }) }) },
      { weight: 1, arbitrary: fc.constant("unreadable" as const) },
      { weight: 2, arbitrary: fc.record({ hours: fc.constantFrom(24, 120, 240, 240) }) },
      { weight: 3, arbitrary: fc.record({ limit: fc.integer({ min: 1, max: 5 }) }) },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 25 }), async (steps) => {
        await clear();
        let event = 0;
        for (const one of steps) {
          if (one === "unreadable") {
            const body = Buffer.from(`unreadable ${(event += 1)}`);
            await apply.applyEvents(await putIntoInbox(pool, [{ eventId: `evt_${event}`, body }]));
          } else if ("hours" in one) await ageBy(one.hours);
          else if ("limit" in one) await expectPass(one.limit);
          else await read(`R${one.order}`, one.version);
        }
        await expectPass(3);
        expect(await removeFromHistory()).toMatchObject({ removed: 0 });
      }),
      { numRuns: 25 },
    );
  });
});

interface HistoryRow {
  readonly id: string;
  readonly old: boolean;
  readonly shown: boolean;
}
const readHistory = async () =>
  (
    await pool.query<HistoryRow>(
      `select h.history_id as id, h.seen_at < now() - make_interval(days => $1) as old,
         o.history_id is not distinct from h.history_id and o.reference is not null as shown
       from mirror.history h left join mirror.orders o using (source_id, reference) order by 1`,
      [KEPT_DAYS],
    )
  ).rows;

/** Expects a pass to remove exactly the old rows that no order shows. */
async function expectPass(stepRows: number): Promise<void> {
  const before = await readHistory();
  await removeFromHistory({ stepRows });
  const stays = ({ old, shown }: HistoryRow) => !old || shown;
  expect(await readHistory()).toEqual(before.filter(stays));
}

it("renews its lease with each step of a pass, and ends the pass when another worker holds it", async () => {
  for (const version of [1, 2, 3, 4, 5, 6]) await read(`R${version}`, version);
  await ageBy(240);
  const ask = (holder: string) => acquireLease(pool, { name: "retention", holder, ttlMs: 60_000 });
  const pass = (renew: () => Promise<boolean>) => removeOlder(pool, { ...HISTORY_ONLY, stepRows: 1, renew });
  const lease = await ask("one");
  if (lease === undefined) throw new Error("the lease is taken");
  const takenByTwo: boolean[] = [];
  const looked = await pass(async () => {
    // Each step takes most of the lease, the third more; without renewal the second would already be too long.
    const seconds = takenByTwo.length === 2 ? 80 : 40;
    await pool.query("update mirror.leases set expires_at = expires_at - make_interval(secs => $1)", [
      seconds,
    ]);
    takenByTwo.push((await ask("two")) !== undefined);
    return renewLease(pool, lease, { ttlMs: 60_000 });
  });
  expect(takenByTwo).toEqual([false, false, true]);
  expect(looked).toEqual({ looked: 3, removed: 0 });
});
