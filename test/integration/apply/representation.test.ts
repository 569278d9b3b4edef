import { beforeEach, describe, expect, it } from "vitest";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { EMPTY_MIRROR } from "../../support/mirror/tables.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { at } from "../../support/mirror/orders.ts";

const { pool, read, tell, show } = await openLiveMirror();
beforeEach(() => pool.query(EMPTY_MIRROR));

/** A read with which all up to second 3,300 is certain. */
const LATE = parseInstant(at(3_600));
const EARLY = parseInstant(at(20));
const TOLD = { reference: "A", status: "picked_up" };
const FINE = "2026-03-01T09:00:10.456789Z";

const readStored = async () =>
  (
    await read(
      `select o.version::text as version, o.raw ->> 'updatedAt' as "updatedAt", o.revision, o.horizon is not null as certain,
         o.updated_at = mirror.instant_at(o.version) as "forPeople", o.changed_at::text as "changedAt",
         (select count(*) from mirror.changes)::int as changes, (select count(*) from mirror.refetches)::int as asked,
         (select count(*) from mirror.history where via <> 'webhook')::int as reads,
         (select count(*) from mirror.history where refuted or verdict in ('refuted', 'corrected') or conflict)::int as against
       from mirror.orders o`,
    )
  )[0];
const GOOD = { revision: 1, changes: 1, asked: 0, against: 0, forPeople: true };

describe("the same state of an order", () => {
  it.each([
    ["cut to milliseconds", "2026-03-01T09:00:10.456Z"],
    ["cut to seconds", "2026-03-01T09:00:10Z"],
    ["cut to seconds, with zeros", "2026-03-01T09:00:10.000000Z"],
    ["rounded to a tenth", "2026-03-01T09:00:10.5Z"],
    ["rounded up to the second", "2026-03-01T09:00:11.000Z"],
    ["cut, with another offset", "2026-03-01T11:00:10+02:00"],
  ])("is confirmed by a read whose updatedAt is %s, and keeps its digits", async (_, updatedAt) => {
    await tell({ ...TOLD, updatedAt: FINE });
    const { changedAt } = (await readStored())!;
    expect(await show(LATE, [{ ...TOLD, updatedAt }])).toMatchObject([{ verdict: "confirmed" }]);
    const version = String(parseInstant(FINE));
    const stored = { ...GOOD, reads: 1, version, updatedAt: FINE, certain: true, changedAt };
    expect(await readStored()).toEqual(stored);
    // A second pass writes nothing, and a later one moves the horizon alone.
    expect(await show(LATE, [{ ...TOLD, updatedAt }])).toMatchObject([{ verdict: "duplicate" }]);
    expect(await show(LATE + 1n, [{ ...TOLD, updatedAt }])).toMatchObject([{ verdict: "duplicate" }]);
    expect(await tell({ ...TOLD, updatedAt: FINE })).toMatchObject([{ verdict: "duplicate" }]);
    expect(await readStored()).toEqual(stored);
  });

  it.each([["2026-03-01T09:00:10Z"], ["2026-03-01T09:00:11Z"]])(
    "is known to an event that comes after a read that shows %s",
    async (updatedAt) => {
      await show(LATE, [{ ...TOLD, updatedAt }]);
      expect(await tell({ ...TOLD, updatedAt: FINE })).toMatchObject([{ verdict: "duplicate" }]);
      expect(await readStored()).toMatchObject({ ...GOOD, updatedAt });
    },
  );

  it("gets the digits of an event when the read before was too early to be certain", async () => {
    await show(EARLY, [{ ...TOLD, updatedAt: "2026-03-01T09:00:10Z" }]);
    expect(await tell({ ...TOLD, updatedAt: FINE })).toMatchObject([{ verdict: "duplicate" }]);
    expect(await readStored()).toMatchObject({
      ...GOOD,
      version: String(parseInstant(FINE)),
      updatedAt: FINE,
      certain: false,
    });
  });

  it("is not changed by other times of the order that are written otherwise", async () => {
    await tell({ ...TOLD, updatedAt: FINE, more: { realPickupTime: "2026-03-01T09:00:09.25Z" } });
    const more = { realPickupTime: "2026-03-01T10:00:09+01:00" };
    await show(LATE, [{ ...TOLD, updatedAt: FINE, more }]);
    expect(await readStored()).toMatchObject(GOOD);
  });
});

describe("another state of an order", () => {
  it("has other content, however close its updatedAt", async () => {
    await tell({ ...TOLD, updatedAt: FINE });
    const other = { ...TOLD, updatedAt: "2026-03-01T09:00:10Z", status: "created" };
    expect(await show(LATE, [other])).toMatchObject([{ verdict: "corrected" }]);
    expect(await readStored()).toMatchObject({ revision: 2, changes: 2, against: 2 });
  });

  it("has an updatedAt of another century, although its content is the same", async () => {
    await show(LATE, [{ ...TOLD, updatedAt: "2261-12-31T00:00:00Z" }]);
    expect(await tell({ ...TOLD, updatedAt: "1700-01-01T00:00:00Z" })).toMatchObject([{ verdict: "stale" }]);
  });

  it("has another updatedAt, although its content is the same", async () => {
    await show(EARLY, [{ ...TOLD, updatedAt: at(10) }]);
    await tell({ ...TOLD, updatedAt: at(11) });
    expect(await tell({ ...TOLD, updatedAt: at(12) })).toMatchObject([{ verdict: "applied" }]);
    expect(await readStored()).toMatchObject({ revision: 3, changes: 3, updatedAt: at(12) });
  });
});
