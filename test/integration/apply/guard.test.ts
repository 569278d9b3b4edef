import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { applyBatch } from "../../../src/apply/applyBatch.sql.ts";
import { toBatchRows } from "../../../src/apply/batchRow.sql.ts";
import {
  formatInstant,
  instantFromMillis,
  NANOS_PER_SECOND,
  parseInstant,
} from "../../../src/domain/order/instant.ts";
import { compareKeys, type OrderKey } from "../../../src/domain/order/observation.ts";
import { decide, settle, withoutFuture } from "../../support/mirror/decide.ts";
import { missAgain } from "../../support/mirror/liveApply.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { at, makeSnapshot } from "../../support/mirror/orders.ts";
import { emptying } from "../../support/mirror/tables.ts";

const { pool, read, show, tell } = await openLiveMirror();
const readOrders = () =>
  read(`select o.*, ctid, xmin, o.raw ->> 'updatedAt' as shown, updated_at = mirror.instant_at(version) as "isForPeople",
    (select count(*)::int from mirror.changes) as changes from mirror.orders o`);

describe("the guard in SQL", () => {
  interface Part {
    version: number;
    observed: number;
    status: string;
    note: string;
    settled: boolean;
    ahead: number | null;
    /** Where the clock that a horizon came from was a day ahead: that of this read, or of the read that was stored. */
    wrongClock: "none" | "this" | "stored";
    /** A second answer up to then has found no such order before this read; null for none. */
    goneUpTo: number | null;
  }
  const keyPart: fc.Arbitrary<Part> = fc.record({
    // Some with fewer digits than others of the same second.
    version: fc.oneof(fc.integer({ min: 0, max: 3 }), fc.constantFrom(0.75, 1.25, 1.3, 1.257)),
    // At -100, the provider dates its changes more than a minute ahead of its answers.
    observed: fc.oneof(fc.integer({ min: 0, max: 12 }), fc.constant(-100)),
    status: fc.constantFrom("created", "picked_up", "unheard_of", "cancelled"),
    note: fc.constantFrom("a", "b"),
    settled: fc.boolean(),
    ahead: fc.option(fc.integer({ min: 0, max: 3 })),
    wrongClock: fc.constantFrom("none", "none", "this", "stored"),
    goneUpTo: fc.option(fc.integer({ min: 0, max: 6 }), { freq: 2 }),
  });
  const tomorrow = instantFromMillis(Date.now()) + 86_400n * NANOS_PER_SECOND;
  const toSubject = (part: Part) => {
    const more = { note: part.note };
    const snapshot = makeSnapshot({ reference: "R", updatedAt: at(part.version), status: part.status, more });
    const rank = { created: 1, picked_up: 3, unheard_of: 5, cancelled: 6 }[part.status]!;
    const observedAt = parseInstant(at(part.observed));
    const key: OrderKey = {
      horizon:
        part.ahead === null
          ? null
          : part.wrongClock === "this"
            ? tomorrow + BigInt(part.ahead)
            : parseInstant(at(part.version + part.ahead)),
      gone: false,
      version: snapshot.version,
      settled: part.settled,
      observedAt,
      rank,
      hash: snapshot.hash,
    };
    const observation = { sourceId: "live", via: "poll" as const, snapshot, key };
    return { kind: "observation" as const, sourceId: "live", via: "poll" as const, event: null, observation };
  };

  /** What is stored after an absence; whether it counts follows from the same order of keys. */
  async function miss(stored: OrderKey, upTo: number): Promise<OrderKey> {
    const known = withoutFuture(stored, instantFromMillis(Date.now()));
    const [horizon, requestedAt] = [parseInstant(at(upTo)), parseInstant(at(20))];
    const absent: OrderKey = { ...known, horizon, gone: true, settled: true, observedAt: requestedAt };
    const isBeaten = compareKeys(absent, known) > 0;
    const { outcome } = await missAgain(pool, { sourceId: "live", reference: "R", horizon, requestedAt });
    expect(outcome).toBe(known.gone ? "confirmed" : isBeaten ? "gone" : "claim_stands");
    return isBeaten ? absent : stored;
  }

  it("agrees with its model on any sequence of observations", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(keyPart, { minLength: 1, maxLength: 8 }), async (parts) => {
        await pool.query(emptying("orders history changes refetches coverage"));
        let stored: OrderKey | undefined;
        let changes = 0;
        for (const part of parts) {
          const subject = toSubject(part);
          if (stored !== undefined && part.wrongClock === "stored") {
            stored = { ...stored, horizon: tomorrow };
            await pool.query("update mirror.orders set horizon = $1", [tomorrow]);
          }
          if (stored !== undefined && part.goneUpTo !== null) {
            const wasGone = stored.gone;
            stored = await miss(stored, part.goneUpTo);
            if (stored.gone && !wasGone) changes += 1;
          }
          const present = instantFromMillis(Date.now());
          const effect = decide(stored, subject.observation.key, present);
          const [outcome] = await applyBatch(pool, toBatchRows([subject]));
          const expected = {
            apply: ["applied"],
            correct: ["corrected"],
            // A horizon that moves adds no history row, nor does a read that settles nothing.
            confirm: [
              stored?.settled === true || !subject.observation.key.settled ? "duplicate" : "confirmed",
            ],
            none: ["stale", "refuted", "duplicate"],
          }[effect];
          expect(expected).toContain(outcome!.verdict);
          // With the same state readers see no change, and nothing speaks against it.
          expect(effect === "confirm" && outcome!.conflict).toBe(false);
          if (effect === "apply" || effect === "correct") changes += 1;
          if (effect !== "none") stored = settle(stored, subject.observation.key, present);
          const written = await readOrders();
          const [again] = await applyBatch(pool, toBatchRows([subject]));
          expect(["stale", "refuted", "duplicate"]).toContain(again!.verdict);
          // A second pass writes nothing.
          expect(await readOrders()).toEqual(written);
          const [row] = written;
          expect(row!["gone_at"] !== null).toBe(stored!.gone);
          expect(row).toMatchObject({
            horizon: stored!.horizon === null ? null : stored!.horizon.toString(),
            version: stored!.version.toString(),
            settled: stored!.settled,
            observed_at: stored!.observedAt.toString(),
            rank: stored!.rank,
            // The digits that were seen stay.
            shown: formatInstant(stored!.version),
            isForPeople: true,
            revision: changes,
            changes,
          });
          expect((row!["hash"] as Buffer).toString("hex")).toBe(stored!.hash);
        }
      }),
      { numRuns: 100 },
    );
  });

  it("knows a state again whose other times are written otherwise, and none of another century", async () => {
    await pool.query(emptying("orders history changes refetches"));
    const told = { reference: "R", updatedAt: "2026-03-01T09:00:10.456789Z" };
    await tell({ ...told, more: { realPickupTime: "2026-03-01T09:00:09.25Z" } });
    const more = { realPickupTime: "2026-03-01T10:00:09+01:00" };
    const again = await show(parseInstant(at(3_600)), [
      { ...told, updatedAt: "2026-03-01T11:00:10+02:00", more },
    ]);
    expect(again).toMatchObject([{ verdict: "confirmed" }]);
    expect(await readOrders()).toMatchObject([{ shown: told.updatedAt, revision: 1, changes: 1 }]);
    await show(parseInstant(at(3_600)), [{ reference: "F", updatedAt: "2261-12-31T00:00:00Z" }]);
    const former = { reference: "F", updatedAt: "1700-01-01T00:00:00Z" };
    expect(await tell(former)).toMatchObject([{ verdict: "stale" }]);
  });

  it("is backed by a trigger that rejects a key that is lower in any of its parts", async () => {
    await pool.query(emptying("orders"));
    await show(parseInstant(at(5)), [{ reference: "R1", updatedAt: at(5) }], { marginSeconds: 0 });
    await pool.query("update mirror.orders set settled = true");
    const lower = (part: string) =>
      pool.query(`update mirror.orders set ${part}`).then(
        () => `lowered: ${part}`,
        ({ message }: Error) => message,
      );
    for (const part of [
      "horizon = horizon - 1, version = version - 1",
      "horizon = null",
      "gone_at = clock_timestamp()",
      "version = version - 1",
      "settled = false",
      "observed_at = observed_at - 1",
      "rank = rank - 1",
      String.raw`hash = '\x00'`,
    ])
      expect(await lower(part)).toMatch(/may not go back/);
  });
});
