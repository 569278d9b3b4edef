import { describe, expect, it } from "vitest";
import {
  applySubjects,
  BATCH_ROWS_MAX,
  type Alongside,
  type Decision,
} from "../../../src/apply/applySubjects.ts";
import { UnavailableError } from "../../../src/domain/errors.ts";
import type { Subject } from "../../../src/apply/subject.ts";
import type { Pool } from "../../../src/database/database.ts";
import { LeaseLostError } from "../../../src/database/leases.sql.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";

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
  const client = { query: () => answers.shift(), release: () => undefined };
  const pool = { connect: () => Promise.resolve(client) } as unknown as Pool;
  const reported: (string | null)[] = [];
  const onDecisions = (decisions: readonly Decision[]) =>
    void reported.push(...decisions.map(({ eventId }) => eventId));
  const subjects = Array.from({ length: BATCH_ROWS_MAX + 1 }, (_, at) => makeSubject(at + 1));
  const applying = applySubjects({ pool, logger: silentLogger, onDecisions }, subjects);
  await expect(applying).rejects.toBeInstanceOf(UnavailableError);
  expect(reported).toEqual(subjects.slice(0, BATCH_ROWS_MAX).map(({ event }) => event?.eventId));
});

describe("in one transaction", () => {
  /** A database that is away for the statements that `isLost` names. */
  function makeSut(isLost: (text: string) => boolean) {
    const query = (statement: string | { readonly text: string }) => {
      const text = typeof statement === "string" ? statement : statement.text;
      if (isLost(text)) return Promise.reject(makeAway());
      return Promise.resolve({ rows: [{ ...decision, n: 0, stored_version: null }] });
    };
    const client = { query, release: () => undefined };
    const pool = { query, connect: () => Promise.resolve(client) } as unknown as Pool;
    return { pool, logger: silentLogger };
  }

  it.each([
    ["the beginning", "begin"],
    ["a batch", "with"],
    ["the work alongside", "select alongside"],
    ["the commit", "commit"],
  ])("an outage at %s is one error", async (_, start) => {
    const deps = makeSut((text) => text.trim().startsWith(start));
    const alongside: Alongside = async (client) => void (await client.query("select alongside"));
    await expect(applySubjects(deps, [makeSubject(1)], alongside)).rejects.toBeInstanceOf(UnavailableError);
  });

  it("an outage at the work alongside no decision is the same error", async () => {
    const alongside: Alongside = async (client) => void (await client.query("select alongside"));
    const applying = applySubjects(
      makeSut(() => true),
      [],
      alongside,
    );
    await expect(applying).rejects.toBeInstanceOf(UnavailableError);
  });

  it("an error of the work alongside that is no outage is thrown as it is", async () => {
    const lost = new LeaseLostError("lost");
    const applying = applySubjects(
      makeSut(() => false),
      [makeSubject(1)],
      () => Promise.reject(lost),
    );
    await expect(applying).rejects.toBe(lost);
  });
});
