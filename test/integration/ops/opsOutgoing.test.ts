import { beforeEach, describe, expect, it } from "vitest";
import { addSource } from "../../support/mirror/orders.ts";
import { openOpsPages } from "../../support/pages/opsServer.ts";
import { fillOutgoing } from "../../support/pages/outgoingEndpoint.ts";
import { emptying } from "../../support/mirror/emptying.ts";

const { pool, read, post } = await openOpsPages();
await addSource(pool, "live");
const ERP = { endpoint: "erp" };
beforeEach(async () => {
  await pool.query(
    emptying("outgoing_deliveries outgoing_cursors outgoing_endpoints", {
      restartsIdentity: true,
    }),
  );
  await fillOutgoing(pool, "<script>no</script>");
});

const one = async (sql: string) => (await pool.query<Record<string, unknown>>(sql)).rows[0];

describe("the page of outgoing webhooks", () => {
  it("lists endpoints with state, backlog, success and last error", async () => {
    const { page, text } = await read("/ops/outgoing");
    expect(page).toContain('href="/ops/outgoing/erp"');
    expect(page).toContain('aria-current="page"\n>Outgoing');
    expect(text).toMatch(/erp live ✔ ok 1 \S+ \S+ 0 50 % of 2 status 500 at \d{4}-/);
    await pool.query("update mirror.outgoing_endpoints set failures_in_row = 2");
    expect((await read("/ops/outgoing")).text).toContain("▲ failed 2 times in a row");
  });

  it("shows the messages of an endpoint by state and by pages, and how each one ended", async () => {
    await pool.query(
      `insert into mirror.outgoing_deliveries (endpoint_id, source_id, position, reference, event_type)
       select 'erp', 'live', n, 'R' || n, 'order.new' from generate_series(3, 62) n`,
    );
    const first = await read("/ops/outgoing/erp");
    expect(first.page.match(/href="\/ops\/outgoing\/erp\/\d+"/g)).toHaveLength(50);
    const next = /href="([^"]+)" rel="next"/.exec(first.page)?.[1] ?? "";
    const second = await read(next);
    expect(second.page.match(/href="\/ops\/outgoing\/erp\/\d+"/g)).toHaveLength(12);
    const delivered = await read("/ops/outgoing/erp?state=delivered");
    expect(delivered.page.match(/href="\/ops\/outgoing\/erp\/\d+"/g)).toHaveLength(1);
    const message = await read("/ops/outgoing/erp/1");
    expect(message.page).toContain("&lt;script&gt;no");
    expect(message.page).not.toContain("<script>no");
    expect(message.text).toMatch(/▲ status 500 .*40 ms/);
    expect((await read("/ops/outgoing/erp/2")).text).toMatch(/✔ status 200 .*30 ms/);
    for (const path of ["none", "erp/99", "erp/x", "none/1"])
      expect([path, (await read(`/ops/outgoing/${path}`)).status]).toEqual([path, 404]);
  });

  it("pauses an endpoint after the exact count, and resumes it", async () => {
    expect((await read("/ops/outgoing-resume?endpoint=erp")).text).toContain("There is nothing to do.");
    expect((await read("/ops/outgoing-pause?endpoint=erp")).text).toContain("Exactly 1 message would wait");
    const { status, to } = await post("/ops/outgoing-pause", ERP);
    expect(status).toBe(303);
    expect((await read(to ?? "")).text).toContain("pause endpoint: endpoint erp (1).");
    expect((await read("/ops/outgoing/erp")).text).toContain("▲ paused by a person");
    expect(await post("/ops/outgoing-pause", ERP)).toMatchObject({ status: 409 });
    expect((await post("/ops/outgoing-resume", ERP)).status).toBe(303);
    expect(await one("select paused_at from mirror.outgoing_endpoints")).toEqual({ paused_at: null });
  });

  it("sends one message again, or all that were given up", async () => {
    expect((await post("/ops/outgoing/erp/1/retry", ERP)).status).toBe(303);
    const state = (id: number) =>
      one(`select state, round, attempts from mirror.outgoing_deliveries where delivery_id = ${id}`);
    expect(await state(1)).toEqual({ state: "pending", round: 2, attempts: 0 });
    await pool.query("update mirror.outgoing_deliveries set state = 'dead'");
    expect((await read("/ops/outgoing/erp")).page).toContain("Send 2 again…");
    const plan = await read("/ops/outgoing-retry?endpoint=erp");
    expect(plan.text).toContain("Exactly 2 messages that were given up would be sent again.");
    const { to } = await post("/ops/outgoing-retry", ERP);
    expect((await read(to ?? "")).text).toContain("retry endpoint: endpoint erp (2).");
    expect([await state(1), await state(2)]).toEqual([
      { state: "pending", round: 3, attempts: 0 },
      { state: "pending", round: 2, attempts: 0 },
    ]);
  });

  it("shows viewers the buttons disabled, with the reason, and refuses the actions", async () => {
    const message = await read("/ops/outgoing/erp/2", "viewer");
    expect(message.page).toContain("<button disabled>Send again</button>");
    expect(message.text).toContain("Only operators may do this.");
    const pause = await read("/ops/outgoing-pause?endpoint=erp", "viewer");
    expect(pause.page).toContain("<button disabled>Pause</button>");
    expect(pause.text).toContain("Only operators may do this.");
    for (const path of ["/ops/outgoing-pause", "/ops/outgoing/erp/1/retry"])
      expect([path, (await post(path, ERP, "viewer")).status]).toEqual([path, 405]);
  });
});
