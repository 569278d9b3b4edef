import { describe, expect, it } from "vitest";
import { diffSnapshots, redactDocument } from "../../../src/ops/orders/snapshotDiff.ts";

const json = JSON.stringify;

describe("the difference of two snapshots", () => {
  it("lists each changed, added and removed field with its values", () => {
    const before = json({ status: "created", schedule: { mode: "asap" }, fleet: { name: "North" } });
    const after = json({ status: "picked_up", fleet: { name: "North" }, pickupTime: "2026-03-01T10:00:00Z" });
    expect(diffSnapshots(before, after)).toEqual([
      { path: "pickupTime", before: null, after: '"2026-03-01T10:00:00Z"', hidden: false },
      { path: "schedule.mode", before: '"asap"', after: null, hidden: false },
      { path: "status", before: '"created"', after: '"picked_up"', hidden: false },
    ]);
  });

  it("shows that personal data changed, without the data", () => {
    const before = json({ customer: { firstName: "Ada", phone: "1", address: { street: "A 1" } } });
    const after = json({ customer: { firstName: "Bob", phone: "2", address: { street: "B 2" } } });
    const changes = diffSnapshots(before, after);
    expect(changes.map(({ path }) => path)).toEqual([
      "customer.address.street",
      "customer.firstName",
      "customer.phone",
    ]);
    expect(changes.every(({ hidden }) => hidden)).toBe(true);
    expect(json(changes)).not.toMatch(/Ada|Bob|A 1|B 2/);
  });

  it("hides the value of every field that is not declared harmless, even inside harmless ones", () => {
    const secret = "secret";
    const inside = { branch: { address: secret }, status: { x: secret }, fleet: { driver: secret } };
    expect(json(diffSnapshots(null, json({ ...inside, note: secret, schedule: secret })))).not.toContain(
      secret,
    );
  });

  it("is empty for the same content in another sequence, and never throws", () => {
    expect(diffSnapshots('{"a":1,"status":"x"}', '{"status":"x","a":1}')).toEqual([]);
    expect(diffSnapshots("not json", "[")).toEqual([]);
    expect(diffSnapshots(null, `${"[".repeat(5_000)}${"]".repeat(5_000)}`).length).toBeLessThanOrEqual(1);
  });
});

describe("a redacted document", () => {
  it("keeps the envelope of an event and the harmless fields of its order", () => {
    const event = {
      id: "evt_1",
      type: "order.created",
      note: "x",
      data: { status: "new", phone: "1" },
      status: "Ada",
    };
    expect(redactDocument(json(event), "event")).toEqual([
      { path: "id", value: '"evt_1"' },
      { path: "type", value: '"order.created"' },
      { path: "note", value: null },
      { path: "data.status", value: '"new"' },
      { path: "data.phone", value: null },
      { path: "status", value: null },
    ]);
  });

  it("is missing for anything but a JSON object", () => {
    expect(redactDocument("Ada, Main Street 1", "event")).toBeNull();
    expect(redactDocument('"Ada"', "order")).toBeNull();
  });
});
