import { OUTGOING_FIELDS, OUTGOING_TYPES, type OutgoingFields } from "../../../src/domain/order/outgoing.ts";
import { makeOrder } from "../../support/mirror/orders.ts";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { describeApi } from "../../../src/api/openapi/openapi.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import type { Change } from "../../../src/changes/changeFeed.sql.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { retryDelayMs } from "../../../src/outgoing/outgoing.ts";
import { judgeAnswer, makeSend } from "../../../src/outgoing/outgoingSend.ts";
import { showAnswer, writeMessage } from "../../../src/outgoing/outgoingMessage.ts";

describe("the answer of an endpoint", () => {
  it("delivers with any 2xx, ends with 410, and otherwise is tried again until the last attempt", () => {
    const judge = (status: number, isLast: boolean) =>
      judgeAnswer({ kind: "answered", status }, isLast).result;
    for (const status of [200, 204, 299])
      expect([status, judge(status, false), judge(status, true)]).toEqual([status, "delivered", "delivered"]);
    for (const status of [199, 300, 404, 429, 503])
      expect([status, judge(status, false), judge(status, true)]).toEqual([status, "pending", "dead"]);
    expect(judge(410, false)).toBe("dead");
    const failed = { kind: "failed", code: "ECONNRESET" } as const;
    expect(judgeAnswer(failed, true)).toEqual({ outcome: "ECONNRESET", result: "dead" });
  });

  it("that `fetch` never asks for says why", async () => {
    const send = makeSend({ url: "http://127.0.0.1:10080/", sign: () => ({}), clock: systemClock });
    expect(await send({ id: "msg_1", body: Buffer.from("{}") })).toMatchObject({ code: "bad port" });
  });

  it.each([
    [{ askedMs: 0, chance: 0 }, 300_000],
    [{ askedMs: 1_000, chance: 0 }, 300_000],
    [{ askedMs: 900_000, chance: 0 }, 900_000],
    [{ askedMs: 0, chance: 0.5 }, 330_000],
    [{ askedMs: 0, chance: 1 }, 360_000],
  ])("to the second attempt with %j is followed by the next after %i ms", (given, expected) => {
    expect(retryDelayMs(2, given, [5, 300])).toBe(expected);
  });
});

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

it.each(OUTGOING_TYPES)("the document of the API describes a message of the type %s", (type) => {
  const { webhooks, components } = describeApi();
  const schema = webhooks[type]?.post.requestBody?.content["application/json"].schema;
  // Parsed from the text, instead of the object that it was generated from.
  const whole = JSON.stringify({ ...schema, $defs: components.schemas });
  const local = whole.replaceAll("#/components/schemas/", "#/$defs/");
  const check = z.fromJSONSchema(JSON.parse(local) as z.core.JSONSchema.JSONSchema);
  const order = JSON.stringify(makeOrder({ reference: "A", updatedAt: "2026-03-01T09:00:01Z" }));
  for (const fields of OUTGOING_FIELDS) {
    const sent = { ...change, before: order, after: order, epoch: "0123456789ab", type };
    const message = JSON.parse(writeMessage(sent, fields).body.toString()) as object;
    expect(check.safeParse(message).error).toBeUndefined();
    expect(check.safeParse({ ...message, data: {} }).success).toBe(false);
  }
});

it("a message is the change as in the feed, under a stable id", () => {
  const write = (epoch: string, changed: Change, fields: OutgoingFields = "all") =>
    writeMessage({ ...changed, epoch, type: "order.status_changed" }, fields);
  const { id, body } = write("0123456789ab", change);
  expect(id).toMatch(/^msg_[0-9a-f]{32}$/);
  expect(write("ba9876543210", { ...change, position: 3n, digest: "00000000" }).id).toBe(id);
  for (const other of [{ reference: "B" }, { revision: 3 }, { version: 1n }, { sourceId: "test" }]) {
    expect(write("0123456789ab", { ...change, ...other }).id).not.toBe(id);
  }
  expect(body.toString()).toContain('"after":{"reference":"A","n": 12345678901234567890}');
  const head = { type: "order.status_changed", timestamp: "2026-03-01T09:00:02Z", source: "live" };
  expect(JSON.parse(body.toString())).toMatchObject({ ...head, data: { changedFields: ["/n"] } });
  // A former state that is no longer kept leaves open what has changed.
  const lost = JSON.parse(write("0123456789ab", { ...change, before: null }).body.toString()) as unknown;
  expect(lost).toMatchObject({ data: { changedFields: null } });
  const person = { name: "Jansen" };
  const raw = JSON.stringify({
    ...makeOrder({ reference: "A", updatedAt: "2026-03-01T09:00:01Z" }),
    externalOrderId: "shop-7",
    customer: person,
    fleet: { name: person, driver: "Jansen" },
    branch: { id: "b1", reference: "centre", manager: "Jansen" },
  });
  const personal = { ...change, before: null, after: raw, revision: 1 };
  const message = write("0123456789ab", personal, "redacted");
  expect(message.id).toBe(write("0123456789ab", personal).id);
  expect(message.body.toString()).not.toContain("Jansen");
  const { data } = JSON.parse(message.body.toString()) as { data: Record<string, unknown> };
  expect(data["changedFields"]).toContain("/customer");
  // By which the business's own systems know the order.
  expect(data).toMatchObject({ before: null, after: { reference: "A", externalOrderId: "shop-7" } });
});

const ORDER = JSON.stringify({
  reference: "DO-1",
  status: "created",
  customer: { firstName: "Zoë O'Neil", phone: "+49 221/7" },
});

it.each([
  ["as it was sent", "unknown customer Zoë O'Neil, +49 221/7 of DO-1"],
  ["in capitals", "unknown customer ZOË O'NEIL, +49 221/7 of DO-1"],
  ["escaped for ASCII", String.raw`{"error":"unknown customer Zo\u00eb O\u0027Neil","phone":"+49 221\/7"}`],
  [
    "in an address",
    `/retry?name=${encodeURIComponent("Zoë O'Neil")}&phone=${encodeURIComponent("+49 221/7")}`,
  ],
  ["in HTML", "<p>Zo&#235; O&#x27;Neil</p><p>+49 221&#47;7</p>"],
  ["over several lines", "customer Zoë\n  O'Neil\r\n+49\t221/7"],
])("an answer that repeats personal data of the order is not shown: %s", (_how, answer) => {
  const shown = showAnswer(Buffer.from(answer), [null, ORDER]) ?? "";
  expect(shown).toContain("not shown");
  expect(shown).not.toMatch(/neil|zo.{0,2}|221/i);
});

it("keeps of an answer what helps", () => {
  const answer = '{"error":"order DO-1 has an unknown status created"}';
  expect(showAnswer(Buffer.from(answer), [null, ORDER])).toBe(answer);
});
