import { expect, it } from "vitest";
import { makeApply } from "../../../src/apply/apply.ts";
import {
  applySubjects,
  BATCH_BYTES_MAX,
  BATCH_ROWS_MAX,
  type Decision,
} from "../../../src/apply/applySubjects.ts";
import { UnavailableError } from "../../../src/domain/errors.ts";
import type { Subject } from "../../../src/apply/subject.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { observeRead } from "../../../src/domain/order/observation.ts";
import { at, makeSnapshot, readAt } from "../../support/mirror/orders.ts";
import { asPool } from "../../support/servers/database.ts";

const decision = { verdict: "ignored", conflict: false, previous_status: null };

function makeSubject(seq: number): Subject {
  const event = { inboxSeq: seq, eventId: `event ${seq}`, eventType: null };
  return { kind: "ignored", sourceId: "a", via: "webhook", event, reason: "not about an order" };
}

const makeAway = () => Object.assign(new Error("terminating connection"), { code: "57P01" });

it("reports the decisions of the batches that were committed before the database went away", async () => {
  const away = makeAway();
  const batch = Array.from({ length: BATCH_ROWS_MAX }, (_, n) => ({ ...decision, n, stored_version: null }));
  const answers = [Promise.resolve({ rows: batch }), Promise.reject(away)];
  const pool = asPool({ query: () => answers.shift() });
  const reported: (string | null)[] = [];
  const onDecisions = (decisions: readonly Decision[]) =>
    void reported.push(...decisions.map(({ eventId }) => eventId));
  const subjects = Array.from({ length: BATCH_ROWS_MAX + 1 }, (_, at) => makeSubject(at + 1));
  const applying = applySubjects({ pool, logger: silentLogger, onDecisions }, subjects, BATCH_BYTES_MAX);
  await expect(applying).rejects.toBeInstanceOf(UnavailableError);
  expect(reported).toEqual(subjects.slice(0, BATCH_ROWS_MAX).map(({ event }) => event?.eventId));
});

it("applies what a page shows in batches of at most 4 MiB, or of one order that is larger", async () => {
  let statements = 0;
  const pool = asPool({
    query: () => {
      statements += 1;
      return Promise.resolve({ rows: [] });
    },
  });
  const subjects = [2, 2.5, 1, 1, 4.5, 0.1].map((mebibytes, place): Subject => {
    const small = makeSnapshot({ reference: `R${place}`, updatedAt: at(1) });
    const snapshot = { ...small, raw: "x".repeat(mebibytes * 1_048_576) };
    const seen = { sourceId: "a", via: "poll" } as const;
    const observation = observeRead({ ...seen, snapshot, time: readAt(snapshot.version) });
    return { kind: "observation", ...seen, event: null, observation };
  });
  await applySubjects({ pool, logger: silentLogger }, subjects, BATCH_BYTES_MAX);
  // 2, 2.5 + 1, 1, 4.5, 0.1.
  expect(statements).toBe(5);
});

it("takes half as many bytes after each failure, down to 64 KiB, and twice as many after a full batch alone", async () => {
  const taken: number[] = [];
  let answer: () => Promise<unknown>;
  const none = () => Promise.resolve({ rows: [] });
  const full = { seq: "1", sourceId: "a", eventId: "e", body: Buffer.alloc(65_536), databaseNow: "0" };
  const pool = asPool({
    query({ name, values }: { name: string; values: readonly unknown[] }) {
      if (name === "apply-batch") return none();
      taken.push(Number(values[1]) / 65_536);
      return answer();
    },
  });
  const { applyEvents } = makeApply({ pool, logger: silentLogger, modes: new Map([["a", "live"]]) });
  for (let failures = 0; failures < 7; failures += 1) {
    answer = () => Promise.reject(makeAway());
    await expect(applyEvents([1])).rejects.toBeInstanceOf(UnavailableError);
    // Others, that are smaller, succeed meanwhile.
    answer = none;
    await applyEvents([2]);
  }
  expect(taken).toEqual([64, 32, 32, 16, 16, 8, 8, 4, 4, 2, 2, 1, 1, 1]);
  answer = () => Promise.resolve({ rows: taken.length === 15 ? [full] : [] });
  await applyEvents([1, 2]);
  expect(taken.slice(14)).toEqual([1, 2]);
});
