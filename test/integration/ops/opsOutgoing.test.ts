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
    emptying("outgoing_deliveries outgoing_endpoints", {
      restartsIdentity: true,
    }),
  );
  await fillOutgoing(pool, "<script>no</script>");
});

const one = async (sql: string) => (await pool.query<Record<string, unknown>>(sql)).rows[0];

describe("the page of outgoing webhooks", () => {
  it("lists endpoints with state and backlog", async () => {
    const { page, text } = await read("/ops/outgoing");
    expect(page).toContain('href="/ops/outgoing/messages?endpoint=erp"');
    expect(page).toContain('aria-current="page"\n>Outgoing');
    expect(text).toMatch(/erp live ✔ ok 1 \S+ \S+ 0 /);
    await pool.query("update mirror.outgoing_endpoints set failures_in_row = 2");
    expect((await read("/ops/outgoing")).text).toContain("▲ failed 2 times in a row");
  });

  it("leads to the messages of an endpoint by state and by pages, and how each one ended", async () => {
    await pool.query(
      `insert into mirror.outgoing_deliveries (endpoint_id, source_id, position, reference, event_type)
       select 'erp', 'live', n, 'R' || n, 'order.new' from generate_series(3, 62) n`,
    );
    const countRows = ({ page }: { page: string }) => page.match(/data-label="Message"/g)?.length ?? 0;
    const first = await read("/ops/outgoing/messages?endpoint=erp");
    const next = /href="([^"]+)" rel="next"/.exec(first.page)?.[1]?.replaceAll("&amp;", "&") ?? "";
    const second = await read(next);
    expect([countRows(first), countRows(second)]).toEqual([50, 12]);
    expect(second.page).toContain("&lt;script&gt;no");
    expect(second.page).not.toContain("<script>no");
    expect(second.text).toMatch(/status 500 40.ms/);
    expect(countRows(await read("/ops/outgoing/messages?endpoint=erp&state=delivered"))).toBe(1);
    expect((await read("/ops/outgoing/messages?endpoint=none")).text).toContain("Nothing matches");
  });

  it("pauses an endpoint, resumes it, and has sent again what was given up", async () => {
    const { to } = await post("/ops/outgoing-pause", ERP);
    expect((await read(to ?? "")).text).toContain("pause endpoint: endpoint erp (1).");
    expect((await read("/ops/outgoing")).text).toContain("▲ paused by a person");
    expect((await post("/ops/outgoing-resume", ERP)).status).toBe(303);
    expect(await one("select paused_at from mirror.outgoing_endpoints")).toEqual({ paused_at: null });
    await pool.query("update mirror.outgoing_deliveries set state = 'dead'");
    const again = await post("/ops/outgoing-retry", ERP);
    expect((await read(again.to ?? "")).text).toContain("retry endpoint: endpoint erp (2).");
    expect(await one("select distinct state, attempts from mirror.outgoing_deliveries")).toEqual({
      state: "pending",
      attempts: 0,
    });
  });

  it("shows viewers the buttons disabled, with the reason, and refuses the actions", async () => {
    const { page, text } = await read("/ops/outgoing", "viewer");
    expect(page).toContain("<button disabled>Pause this endpoint</button>");
    expect(text).toContain("Only operators may do this.");
    expect((await post("/ops/outgoing-pause", ERP, "viewer")).status).toBe(405);
  });
});
