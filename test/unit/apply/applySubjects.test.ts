import { expect, it } from "vitest";
import { applySubjects, BATCH_ROWS_MAX, type Decision } from "../../../src/apply/applySubjects.ts";
import { UnavailableError } from "../../../src/domain/errors.ts";
import type { Subject } from "../../../src/apply/subject.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { asPool } from "../../support/servers/database.ts";

const decision = { verdict: "ignored", conflict: false, previous_status: null, revision: null };

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
  const applying = applySubjects({ pool, logger: silentLogger, onDecisions }, subjects);
  await expect(applying).rejects.toBeInstanceOf(UnavailableError);
  expect(reported).toEqual(subjects.slice(0, BATCH_ROWS_MAX).map(({ event }) => event?.eventId));
});
