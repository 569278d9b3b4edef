import { expect, it, onTestFinished } from "vitest";
import { applyAbsence } from "../../../src/apply/absence.sql.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { at } from "../../support/mirror/orders.ts";

const instant = (seconds: number) => parseInstant(at(seconds));

/** A mirror that knows `claimed` only from an event and `read` from a read. Both changed at second 100. */
async function makeMirror() {
  const { pool, tell, show } = await openLiveMirror({ ends: onTestFinished });
  await tell({ reference: "claimed", updatedAt: at(100) });
  await show(instant(1_001), [{ reference: "read", updatedAt: at(100) }], { marginSeconds: 900 });
  const miss = async (reference: string, horizonSeconds: number) => {
    const [horizon, requestedAt] = [instant(horizonSeconds), instant(horizonSeconds + 900)];
    const absence = { sourceId: "live", reference, via: "refetch", horizon, requestedAt } as const;
    return (await applyAbsence(pool, absence)).outcome;
  };
  const readServed = async () =>
    (
      await pool.query<{ reference: string }>(
        "select reference from mirror.orders where gone_at is null order by 1",
      )
    ).rows.map(({ reference }) => reference);
  return { pool, miss, readServed };
}

it("refutes a claim whose version lies within the read's horizon, and no younger claim", async () => {
  const { pool, miss, readServed } = await makeMirror();
  expect(await miss("claimed", 99)).toBe("claim_stands");
  expect(await readServed()).toEqual(["claimed", "read"]);
  expect(await miss("claimed", 100)).toBe("gone");
  expect(await readServed()).toEqual(["read"]);
  expect(await miss("claimed", 101)).toBe("confirmed");
  const { rows } = await pool.query(
    "select verdict, refuted from mirror.history where reference = 'claimed' order by history_id",
  );
  expect(rows).toEqual([
    { verdict: "applied", refuted: true },
    { verdict: "gone", refuted: false },
  ]);
});

it("removes an order that a read showed only when the new horizon is later", async () => {
  const { pool, miss, readServed } = await makeMirror();
  // That read was requested at second 1,001, so its horizon is second 101.
  expect(await miss("read", 101)).toBe("claim_stands");
  expect(await miss("read", 102)).toBe("gone");
  expect(await readServed()).toEqual(["claimed"]);
  // The order existed once, so reports keep it.
  const { rows } = await pool.query("select verdict, refuted from mirror.history where reference = 'read'");
  expect(rows).toContainEqual({ verdict: "applied", refuted: false });
});

it("reports an order that the mirror never had as unknown", async () => {
  const { miss } = await makeMirror();
  expect(await miss("never seen", 500)).toBe("unknown");
});
