import type { OutgoingFields } from "../../../src/domain/order/outgoing.ts";
import { makeOrder } from "../../support/mirror/orders.ts";
import { describe, expect, it } from "vitest";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import type { Change } from "../../../src/changes/change.sql.ts";
import { judgeAnswer } from "../../../src/outgoing/outgoingDelivery.ts";
import { writeMessage } from "../../../src/outgoing/outgoingMessage.ts";

describe("the answer of an endpoint", () => {
  const after = (status: number, retryAfterMs: number | null = null) =>
    judgeAnswer({ kind: "answered", status, retryAfterMs }, { waitSeconds: 30, chance: 0 }).result;

  it.each([200, 204, 299])("%s is delivered", (status) => {
    expect(after(status)).toBe("delivered");
  });

  it.each([199, 300, 302, 400, 404, 429, 500, 503])("%s is retried", (status) => {
    expect(after(status)).toEqual({ retryAfterMs: 30_000 });
  });

  it("410 is final, and so is the last failure", () => {
    expect(after(410)).toBe("dead");
    const last = { waitSeconds: undefined, chance: 0 };
    expect(judgeAnswer({ kind: "failed", code: "ECONNRESET" }, last)).toEqual({
      outcome: "ECONNRESET",
      result: "dead",
    });
    expect(judgeAnswer({ kind: "answered", status: 200, retryAfterMs: null }, last).result).toBe("delivered");
  });

  it("may request a longer wait, but not a shorter one", () => {
    expect(after(503, 90_000)).toEqual({ retryAfterMs: 90_000 });
    expect(after(503, 1_000)).toEqual({ retryAfterMs: 30_000 });
  });

  it("adds a random wait, so that retries are spread", () => {
    const wait = (chance: number) =>
      judgeAnswer({ kind: "failed", code: "x" }, { waitSeconds: 10, chance }).result;
    expect([wait(0), wait(0.5), wait(1)]).toEqual([
      { retryAfterMs: 10_000 },
      { retryAfterMs: 11_000 },
      { retryAfterMs: 12_000 },
    ]);
  });
});

it("a message is the change as in the feed, under a stable id", () => {
  const change: Change = {
    position: 12n,
    digest: "0a1b2c3d",
    sourceId: "live",
    reference: "A",
    revision: 2,
    status: "picked_up",
    previousStatus: "created",
    verdict: "applied",
    via: "webhook",
    eventId: "evt_1",
    eventType: "order.picked_up",
    version: parseInstant("2026-03-01T09:00:01.000000001Z"),
    changedAt: parseInstant("2026-03-01T09:00:02Z"),
    before: '{"reference":"A","n": 1.0}',
    after: '{"reference":"A","n": 12345678901234567890}',
  };
  const write = (epoch: string, changed: Change, fields: OutgoingFields = "all") =>
    writeMessage({ kind: "claimed", epoch, type: "order.status_changed", change: changed }, fields);
  const { id, body } = write("0123456789ab", change);
  expect(id).toMatch(/^msg_[0-9a-f]{32}$/);
  expect(write("ba9876543210", { ...change, position: 3n, digest: "00000000" }).id).toBe(id);
  for (const other of [{ reference: "B" }, { revision: 3 }, { version: 1n }, { sourceId: "test" }]) {
    expect(write("0123456789ab", { ...change, ...other }).id).not.toBe(id);
  }
  expect(body.toString()).toContain('"after":{"reference":"A","n": 12345678901234567890}');
  expect(JSON.parse(body.toString())).toMatchObject({
    type: "order.status_changed",
    timestamp: "2026-03-01T09:00:02Z",
    source: "live",
    data: {
      position: "0123456789ab.12.0a1b2c3d",
      revision: 2,
      previousStatus: "created",
      changedFields: ["/n"],
    },
  });
  const person = { name: "Jansen" };
  const raw = JSON.stringify({
    ...makeOrder({ reference: "A", updatedAt: "2026-03-01T09:00:01Z" }),
    externalOrderId: "Jansen 7",
    customer: person,
    fleet: { name: person, driver: "Jansen" },
    branch: { id: "b1", reference: "centre", manager: "Jansen" },
  });
  const personal = { ...change, before: null, after: raw, revision: 1 };
  for (const fields of ["redacted", "thin"] as const) {
    const message = write("0123456789ab", personal, fields);
    expect(message.id).toBe(write("0123456789ab", personal).id);
    expect(message.body.toString()).not.toContain("Jansen");
    const { data } = JSON.parse(message.body.toString()) as { data: Record<string, unknown> };
    expect(data["changedFields"]).toContain("/customer");
    expect([fields, data["before"], data["after"] === null]).toEqual([fields, null, fields === "thin"]);
  }
});
