import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openOpsPages } from "../../support/pages/opsServer.ts";
import { fillMirror, goBack } from "../../support/pages/opsMirror.ts";
import { insertOrder, orderText } from "../../support/mirror/mirroredOrders.ts";

const { pool, read, post } = await openOpsPages({ max: 4 });
await fillMirror(pool);
const ADDRESS = "/ops/orders/live/ORD-1001";

describe("an order's page", () => {
  it("lists each observation with its verdict and reason, in the sequence of decisions", async () => {
    const { status, text } = await read(ADDRESS);
    expect(status).toBe(200);
    const verdicts = [...text.matchAll(/(APPLIED|STALE|DUPLICATE|CONFIRMED|CORRECTED|REFUTED)/g)].map(
      ([word]) => word,
    );
    expect(verdicts).toEqual(["STALE", "APPLIED", "APPLIED", "APPLIED"]);
    expect(text).toContain("A newer state was already known.");
    expect(text).toContain("LOST Its event never arrived: lost, and repaired by this read.");
    expect(text).toMatch(/status : "created" → "assigned" updatedAt : [-\d]+ [:.\d]+ → [-\d]+ [:.\d]+ /);
  });

  it("begins with the delivery: its progress, planned and actual times, the fleet, and the certainty", async () => {
    await pool.query(`
      update mirror.orders set branch_reference = 'centre', fleet_name = 'Swift', status = 'picked_up',
        delivery_time = '2026-01-22T14:30Z', pickup_time = '2026-01-22T14:00Z', real_pickup_time = '2026-01-22T14:12:20Z',
        real_delivery_time = null
      where reference = 'ORD-1001'`);
    const { text } = await read(ADDRESS);
    expect(text).toMatch(
      /Created [-\d]+ [:\d]+ Arrived for pickup .*Picked up [-\d]+ [:\d]+ .*Delivered not yet/,
    );
    expect(text).toMatch(
      /Not yet verified : reported by webhook at [-\d]+ [:\d]+ ; not yet checked by a later read/,
    );
    expect(text).toContain("Pickup 2026-01-22 14:00 2026-01-22 14:12 ▲ 12 min late");
    expect(text).toMatch(/Delivery 2026-01-22 14:30 – ▲ overdue \d+ d \d+ h/);
    expect(text).toContain("Branch centre Fleet Swift External id shop-ORD-1001 Source live");
    await pool.query("update mirror.orders set settled = true where reference = 'ORD-1001'");
    expect((await read(ADDRESS)).text).toMatch(/✔ Verified with the provider at [-\d]+ [:\d]+/);
  });

  it("shows both times and the difference between them", async () => {
    const { text } = await read(ADDRESS);
    expect(text).toMatch(/Provider's clock: [\d-]+ [\d:.]+ changed [\d-]+ [\d:.]+ event Our clock: /);
    expect(text).toMatch(/received [\d-]+ [\d:.]+ decided 10 min \d+ s after the change/);
  });

  it("shows that personal data changed, but not the data", async () => {
    const { page, text } = await read(ADDRESS);
    expect(text).toContain("customer.phone changed, value not shown");
    expect(page).not.toMatch(/Ada|Analytical|7946/);
  });

  it("is missing for an unknown order, but offers a refetch", async () => {
    const { status, text } = await read("/ops/orders/live/NOPE");
    expect(status).toBe(404);
    expect(text).toContain("The mirror has no state of this order in source live.");
    expect(text).toContain("Read again from the provider");
    expect((await read("/ops/orders/nowhere/NOPE")).text).not.toContain("Read again from the provider");
  });
});

describe("an order that the provider has set back", () => {
  it("is shown as the mirror serves it: object, differences, and track", async () => {
    await goBack(pool, "BACK-1");
    const { text } = await read("/ops/orders/live/BACK-1");
    expect(text).toMatch(/CORRECTED .*status : "delivered" → "arrived_for_pickup"/);
    expect(text).toMatch(/The order object, redacted .*status : "arrived_for_pickup"/);
    expect(text).toMatch(/Arrived for pickup [-\d]+ [:\d]+ .*Delivered not yet/);
    expect(text.match(/the first known state/g)).toHaveLength(1);
  });

  it("names a state the first known one only where it is", async () => {
    await pool.query(`
      delete from mirror.snapshots where history_id = (select min(history_id) from mirror.history where reference = 'BACK-1');
      delete from mirror.history where history_id = (select min(history_id) from mirror.history where reference = 'BACK-1')`);
    expect((await read("/ops/orders/live/BACK-1")).text).not.toContain("the first known state");
    await pool.query("delete from mirror.orders where reference = 'BACK-1'; delete from mirror.refetches");
  });
});

describe.each([".", ".."])("an order with the reference %s, which a path cannot name", (reference) => {
  beforeAll(() =>
    insertOrder(
      pool,
      "live",
      orderText({ reference, externalOrderId: `dots-${reference}`, updatedAt: "2026-01-22T10:00:00Z" }),
    ),
  );
  afterAll(() => pool.query("delete from mirror.orders where reference = $1", [reference]));
  const page = [200, expect.stringContaining(`External id dots-${reference} `)];
  const open = async (link: string) => {
    const { status, text } = await read(link);
    return [status, text];
  };

  it("has a page, which the list of orders and the search lead to", async () => {
    const list = await read("/ops/orders?q=dots-");
    const [, link = ""] = [...list.page.matchAll(/<a class="name" href="([^"]+)" data-copy="([^"]+)"/g)].find(
      ([, , name]) => name === reference,
    )!;
    expect(await open(link.replaceAll("&amp;", "&"))).toEqual(page);
    expect(await open((await read(`/ops/search?q=dots-${reference}`)).to!)).toEqual(page);
  });

  it("is read again at its page's request", async () => {
    const address = (await read(`/ops/search?q=dots-${reference}`)).to!;
    const shown = await read(address);
    const [, action = ""] = /<form[^>]+action="([^"]*refetch[^"]*)"/.exec(shown.page)!;
    const answer = await post(action.replaceAll("&amp;", "&"));
    expect(answer).toMatchObject({ status: 303, to: address });
    const { rows } = await pool.query("delete from mirror.refetches returning reference");
    expect(rows).toEqual([{ reference }]);
    await pool.query("delete from mirror.ops_actions");
  });
});

it.each([
  ["GET", "/ops/orders/live"],
  ["GET", "/ops/orders/live?reference="],
  ["POST", "/ops/orders/live/refetch"],
  ["POST", "/ops/orders/live/refetch?reference="],
])("%s %s names no order and finds nothing", async (method, path) => {
  expect((method === "GET" ? await read(path) : await post(path)).status).toBe(404);
});

describe("a refetch requested on the page", () => {
  it("waits for the poller and is in the audit log", async () => {
    expect(await post(`${ADDRESS}/refetch`)).toMatchObject({ status: 303, to: ADDRESS });
    expect((await read(ADDRESS)).text).toMatch(/Waiting for a re-read: requested \d s ago;/);
    const { rows } = await pool.query(
      "select role, action, source_id, target, affected from mirror.ops_actions",
    );
    expect(rows).toEqual([
      { role: "operator", action: "refetch", source_id: "live", target: "ORD-1001", affected: "1" },
    ]);
    await pool.query("delete from mirror.refetches");
  });

  it("is refused for a source that does not exist", async () => {
    expect((await post("/ops/orders/nowhere/X/refetch")).status).toBe(404);
  });
});

describe("an event's page", () => {
  it("says when it came, what verified it, what was decided, and what it says, without personal data", async () => {
    const { page, text } = await read(ADDRESS);
    expect(page).toContain('href="/ops/events/live/evt_3"');
    const event = await read("/ops/events/live/evt_3");
    expect(event.text).toMatch(/Verified by secret 1 of the source .* State decided/);
    expect(event.text).toMatch(/ms applied – ORD-1001 .* data\.status : "picked_up"/);
    expect(event.page).not.toMatch(/Ada|Analytical|7946/);
    expect(text).not.toMatch(/Analytical/);
  });

  it("leads to the quarantine, and is missing for an unknown event", async () => {
    expect((await read("/ops/events/live/evt_bad")).page).toMatch(
      /quarantined[^]*href="\/ops\/quarantine\/\d+"/,
    );
    expect((await read("/ops/events/live/nothing")).status).toBe(404);
  });
});

describe("the search", () => {
  it.each([
    ["ORD-1001", ADDRESS],
    ["shop-ORD-1001", ADDRESS],
    [" evt_3 ", "/ops/events/live/evt_3"],
    ["evt_bad", "/ops/events/live/evt_bad"],
  ])("leads from %s to %s", async (text, to) => {
    const path = `/ops/search?q=${encodeURIComponent(text)}`;
    expect(await read(path)).toMatchObject({ status: 303, to });
  });

  it("lists all orders with part of the name, in any case", async () => {
    const { status, to } = await read("/ops/search?q=shop-ord-100");
    expect({ status, to }).toEqual({ status: 303, to: "/ops/orders?q=shop-ord-100" });
    expect((await read(to ?? "")).text).toContain("9 orders; 9 shown");
  });

  it.each(["", "q=", "q=NOPE", "q=a&q=b", "q=%00", "q=%3Cscript%3E"])(
    "runs nothing for %s, and says when nothing matches",
    async (query) => {
      const { status, to } = await read(`/ops/search?${query}`);
      expect(status).toBe(303);
      const { text, page } = await read(to ?? "");
      expect(text).toContain(to === "/ops/orders" ? "21 orders; 21 shown" : "No order matches.");
      expect(page).not.toContain("<script>");
    },
  );
});
