import { describe, expect, it } from "vitest";
import { openOpsPages } from "../../support/pages/opsServer.ts";
import { fillMirror, goBack } from "../../support/pages/opsMirror.ts";
import { insertOrder, orderText } from "../../support/mirror/orders.ts";

const { pool, read, post } = await openOpsPages({ max: 4 });
await fillMirror(pool);
const ADDRESS = "/ops/orders/live/ORD-1001";
const TIME = "[-\\d]+ [:.\\d]+";

describe("an order's page", () => {
  it("lists each observation with its verdict and reason, in the sequence of decisions", async () => {
    const { status, page, text } = await read(ADDRESS);
    expect(status).toBe(200);
    const verdicts = text.match(/APPLIED|STALE|DUPLICATE|CONFIRMED|CORRECTED|REFUTED/g);
    expect(verdicts).toEqual(["STALE", "APPLIED", "APPLIED", "APPLIED"]);
    for (const said of [
      /A newer state was already known\./,
      /LOST Its event never arrived: lost, and repaired by this read\./,
      RegExp(`status : "created" → "assigned" updatedAt : ${TIME} → ${TIME} `),
      RegExp(`Provider's clock: ${TIME} changed ${TIME} event Our clock: `),
      RegExp(`received ${TIME} decided 10 min \\d+ s after the change`),
      /customer\.phone changed, value not shown/,
    ])
      expect(text).toMatch(said);
    expect(page).not.toMatch(/Ada|Analytical|7946/);
    expect(page).toContain('href="/ops/events/live/evt_3"');
    expect(page).toContain('action="/ops/search"');
  });

  it("begins with the delivery: its progress, planned and actual times, the fleet, and the certainty", async () => {
    await pool.query(`
      update mirror.orders set branch_reference = 'centre', fleet_name = 'Swift', status = 'picked_up',
        delivery_time = '2026-01-22T14:30Z', pickup_time = '2026-01-22T14:00Z', real_pickup_time = '2026-01-22T14:12:20Z',
        real_delivery_time = null
      where reference = 'ORD-1001'`);
    const { text } = await read(ADDRESS);
    for (const said of [
      RegExp(`Created ${TIME} Arrived for pickup .*Picked up ${TIME} .*Delivered not yet`),
      RegExp(`Not yet verified : reported by webhook at ${TIME} ; not yet checked by a read`),
      /Pickup 2026-01-22 14:00 2026-01-22 14:12 ▲ 12 min late/,
      /Delivery 2026-01-22 14:30 – (?:▲ \d+ d \d+ h late|unknown since)/,
      /Branch centre Fleet Swift External id shop-ORD-1001 Source live/,
    ])
      expect(text).toMatch(said);
    await pool.query("update mirror.orders set settled = true where reference = 'ORD-1001'");
    expect((await read(ADDRESS)).text).toMatch(RegExp(`✔ Verified with the provider at ${TIME}`));
  });

  it("shows what the mirror serves after the provider has set the order back: object, differences, track", async () => {
    await goBack(pool, "ORD-1001");
    const { text } = await read(ADDRESS);
    expect(text).toMatch(/CORRECTED .*status : "picked_up" → "created"/);
    expect(text).toMatch(/The order object, redacted .*status : "created"/);
    expect(text).toMatch(RegExp(`Created ${TIME} .*Picked up not yet .*Delivered not yet`));
    expect(text.match(/the first known state/g)).toHaveLength(1);
    // A state is the first known one only where it is.
    const first = "(select min(history_id) from mirror.history where reference = 'ORD-1001')";
    await pool.query(`delete from mirror.snapshots where history_id = ${first};
      delete from mirror.history where history_id = ${first}`);
    expect((await read(ADDRESS)).text).not.toContain("the first known state");
    await pool.query("delete from mirror.refetches");
  });

  it("names its open entries in quarantine, and shows the newest of its many observations", async () => {
    const many = "('live', 'MANY', 'poll'";
    await pool.query(`
      insert into mirror.quarantine (source_id, reference, via, reason, state) values
        ${many}, 'unreadable_order', 'open'), ${many}, 'unreadable_order', 'dismissed');
      insert into mirror.history (source_id, reference, via, verdict, conflict)
        select 'live', 'MANY', 'poll', case when n > 50 then 'duplicate' else 'stale' end, n = 99 from generate_series(1, 250) n`);
    const { text } = await read("/ops/orders/live/MANY");
    expect(text).toMatch(/1 in conflict ?: .* 1 in quarantine ?: look at number \d+ /);
    expect(text).toContain("Only the newest 200 observations are shown.");
    expect(text.match(/DUPLICATE|STALE/g)).toEqual(Array(200).fill("DUPLICATE"));
    await pool.query("delete from mirror.quarantine where reference = 'MANY'");
  });

  it("is missing for an unknown order, but offers to read it from a known source", async () => {
    const { status, text } = await read("/ops/orders/live/NOPE");
    expect(status).toBe(404);
    expect(text).toContain("The mirror has no state of this order in source live.");
    expect(text).toContain("Read again from the provider");
    expect((await read("/ops/orders/nowhere/NOPE")).text).not.toContain("Read again from the provider");
    expect((await post("/ops/orders/nowhere/X/refetch")).status).toBe(404);
  });

  it.each(["ORD-1001", ".", ".."])(
    "of %s is found and has the order read again, with an entry in the audit log",
    async (reference) => {
      if (reference !== "ORD-1001") {
        const more = { externalOrderId: `shop-${reference}`, updatedAt: "2026-01-22T10:00:00Z" };
        await insertOrder(pool, "live", orderText({ reference, ...more }));
      }
      const list = await read(`/ops/orders?q=shop-${reference}`);
      const links = [...list.page.matchAll(/<a class="name ref" href="([^"]+)" data-copy="([^"]+)"/g)];
      const address = links.find(([, , name]) => name === reference)?.[1]?.replaceAll("&amp;", "&") ?? "";
      expect(await read(`/ops/search?q=shop-${reference}`)).toMatchObject({ status: 303, to: address });
      const { text, page } = await read(address);
      expect(text).toContain(`External id shop-${reference} `);
      const [, action = ""] = /<form[^>]+action="([^"]*refetch[^"]*)"/.exec(page) ?? [];
      const { to } = await post(action.replaceAll("&amp;", "&"), {}, { from: address });
      expect(to?.startsWith(address)).toBe(true);
      expect((await read(to ?? "")).text).toContain(`✔ ${reference}: The order is read next,`);
      const waiting = / Waiting for a single read: requested \d+ s ago; the poller does it ([^.]+)\./;
      expect(waiting.exec((await read(address)).text)?.[1]).toBe("in its next cycle");
      await pool.query("update mirror.sources set paused_at = now()");
      expect(waiting.exec((await read(address)).text)?.[1]).toBe("once polling is resumed");
      await pool.query("update mirror.sources set paused_at = null");
      await pool.query(`update mirror.refetches set attempts = 1, missed_at = 1,
        next_attempt_at = clock_timestamp() + interval '90 min'`);
      const missed = (await read(address)).text;
      expect(missed).toMatch(
        /tried once so far, and the provider answered that there is no such order; the poller does it not before 1 h \d+ min have passed\./,
      );
      expect(missed).toContain(
        "Exception : “complete up to” excludes this order, because a single read did not find it.",
      );
      // It was read, and is only kept for the next proof.
      await pool.query("update mirror.refetches set missed_at = null, next_attempt_at = 'infinity'");
      expect((await read(address)).text).not.toContain("Waiting for a single read");
      expect((await read("/ops/refetches")).text).toContain("No order waits for a single read.");
      expect((await read("/ops/sources/live")).text).toContain("Single reads waiting 0 ");
      const { rows } = await pool.query("delete from mirror.refetches returning reference");
      expect(rows).toEqual([{ reference }]);
      const actions = await pool.query(
        "delete from mirror.ops_actions returning role, action, source_id, target, affected",
      );
      expect(actions.rows).toEqual([
        { role: "operator", action: "refetch", source_id: "live", target: reference, affected: "1" },
      ]);
      if (reference !== "ORD-1001")
        await pool.query("delete from mirror.orders where reference = $1", [reference]);
    },
  );
});

it("an event's page says when it came, what verified it, what was decided, and what it says, without personal data", async () => {
  const event = await read("/ops/events/live/evt_3");
  expect(event.text).toMatch(/Verified by secret 1 of the source .* State decided/);
  expect(event.text).toMatch(/ms applied – ORD-1001 .* data\.status : "picked_up"/);
  expect(event.page).not.toMatch(/Ada|Analytical|7946/);
  expect((await read("/ops/events/live/evt_bad")).page).toMatch(
    /quarantined[^]*href="\/ops\/quarantine\/\d+"/,
  );
  expect((await read("/ops/events/live/nothing")).status).toBe(404);
});

it.each<[string, string, string?]>([
  ["ORD-1001", ADDRESS],
  ["shop-ORD-1001", ADDRESS],
  [" evt_3 ", "/ops/events/live/evt_3"],
  ["evt_bad", "/ops/events/live/evt_bad"],
  // Part of a name, in any case.
  ["shop-ord-100", "/ops/orders?q=shop-ord-100", "9 orders; 9 shown"],
  ["", "/ops/orders", "21 orders; 21 shown"],
  ["a&q=b", "/ops/orders?q=a%26q%3Db", "No order matches this choice."],
  ["\0", "/ops/orders", "21 orders; 21 shown"],
  ["<script>", "/ops/orders?q=%3Cscript%3E", "No order matches this choice."],
])("the search leads from %j to %s", async (text, to, says) => {
  expect(await read(`/ops/search?q=${encodeURIComponent(text)}`)).toMatchObject({ status: 303, to });
  const { text: said, page } = await read(to);
  expect(said).toContain(says ?? "");
  expect(page).not.toContain("<script>");
});
