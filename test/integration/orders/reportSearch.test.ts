import { beforeEach, describe, expect, it } from "vitest";
import { insertOrder, orderText } from "../../support/mirror/mirroredOrders.ts";
import { addSource } from "../../support/mirror/orders.ts";
import { startTestReport } from "../../support/mirror/report.ts";
import { emptying } from "../../support/mirror/emptying.ts";

const [B1, B2] = ["6f1c7a52-0d7e-4a0e-9d5b-3f0f4c6e2a11", "7f1c7a52-0d7e-4a0e-9d5b-3f0f4c6e2a11"];

const report = await startTestReport();
beforeEach(async () => {
  await report.database.pool.query(
    emptying("orders branches") +
      "; delete from mirror.poll_state; update mirror.sources set branches_read_at = null",
  );
  await addSource(report.database.pool, "live");
  await addSource(report.database.pool, "test", "test");
});

const add = (fields: Record<string, unknown>, sourceId = "live") =>
  insertOrder(report.database.pool, sourceId, orderText(fields));
const get = (path: string, headers: Record<string, string> = {}) =>
  fetch(`${report.url}/v1${path}`, { headers });

async function find(query: string) {
  const response = await get(`/orders?${query}`);
  expect(response.status).toBe(200);
  return ((await response.json()) as { data: { reference: string }[] }).data.map(
    ({ reference }) => reference,
  );
}

const seenAt = (reference: string, at: string) =>
  report.database.pool.query("update mirror.orders set first_seen_at = $2 where reference = $1", [
    reference,
    at,
  ]);

const addBranch = (fields: {
  id: string;
  reference?: string;
  name?: string;
  closed?: boolean;
  sourceId?: string;
  position?: number;
}) => {
  const { id, reference = null, name = "Centre", closed = false, sourceId = "live", position = 0 } = fields;
  return report.database.pool.query(
    `insert into mirror.branches (source_id, branch_id, reference, name, raw, closed_at, position)
     values ($1, $2, $3, $4, $5, case when $6 then now() end, $7)`,
    [sourceId, id, reference, name, `{ "id":"${id}", "name":"${name}", "more": 1.10 }`, closed, position],
  );
};

const readBranchesAt = (at: string) =>
  report.database.pool.query("update mirror.sources set branches_read_at = $1 where source_id = 'live'", [
    at,
  ]);

describe("the search for orders", () => {
  it("finds orders in the sequence in which they were first seen, page by page", async () => {
    await add({ reference: "A", updatedAt: "2026-11-20T12:00:00Z" });
    await add({ reference: "B", updatedAt: "2026-11-20T11:00:00Z" });
    await add({ reference: "C", updatedAt: "2026-11-20T10:00:00Z" });
    await seenAt("A", "2026-11-21T00:00:00.000001Z");
    await seenAt("B", "2026-11-21T00:00:00.000002Z");
    await seenAt("C", "2026-11-20T00:00:00Z");
    expect(await find("sort=firstSeenAt")).toEqual(["C", "A", "B"]);
    const first = await get("/orders?sort=firstSeenAt&limit=2");
    const next = /<\?([^>]+)>/.exec(first.headers.get("link") ?? "")?.[1];
    expect(await find(next!)).toEqual(["B"]);
  });
});

describe("a branch in the filter", () => {
  it("is looked up by its current name", async () => {
    await addBranch({ id: B1, reference: "new" });
    await add({ reference: "A", branch: { id: B1, reference: "old" } });
    expect(await find("branch=new")).toEqual(["A"]);
    expect(await find(`branch=${B1}`)).toEqual(["A"]);
  });

  it("is found by the name in its latest order when the provider never listed it", async () => {
    await addBranch({ id: "b0", reference: "other" });
    await add({ reference: "A", branch: { id: B1, reference: "old" }, updatedAt: "2026-11-20T10:00:00Z" });
    await add({ reference: "B", branch: { id: B1, reference: "centre" }, updatedAt: "2026-11-20T11:00:00Z" });
    await add({ reference: "C", branch: { id: B2, reference: "west" } });
    expect(await find("branch=centre")).toEqual(["A", "B"]);
    expect(await find("branch=west")).toEqual(["C"]);
    expect((await get("/orders?branch=old")).status).toBe(422);
    expect((await get("/orders?branch=Centre")).status).toBe(422);
  });
});

describe("GET /v1/branches", () => {
  it("lists open branches as the provider sent them", async () => {
    await addBranch({ id: B1, name: "West", position: 2 });
    await addBranch({ id: B2, name: "Zoo", position: 1 });
    await addBranch({ id: "b3", closed: true });
    await readBranchesAt("2026-11-20T10:00:00.123456Z");
    await addBranch({ id: "b4", sourceId: "test" });
    const response = await get("/branches");
    expect(response.status).toBe(200);
    expect(response.headers.get("x-branches-as-of")).toBe("2026-11-20T10:00:00.123456Z");
    const answer = await report.database.pool.query<{ at: string }>(
      "select branches_read_at::text as at from reporting.sync_status where source_id = 'live'",
    );
    expect(Date.parse(answer.rows[0]!.at)).toBe(Date.parse("2026-11-20T10:00:00.123Z"));
    expect(await response.text()).toMatch(
      new RegExp(
        `^\\{"data":\\[\\{ "id":"${B2}", "name":"Zoo", "more": 1\\.10 \\},\\{ "id":"${B1}", .*\\}\\],"hasMore":false,"request_id":"req_`,
      ),
    );
  });

  it("is empty when there are none, and unavailable before branches were read", async () => {
    const never = await get("/branches");
    expect(never.status).toBe(503);
    expect(never.headers.get("retry-after")).toBe("5");
    await readBranchesAt("2026-11-20T10:00:00Z");
    expect(await (await get("/branches")).json()).toMatchObject({ data: [], hasMore: false });
    await addBranch({ id: B1, closed: true });
    expect(await (await get("/branches")).json()).toMatchObject({ data: [], hasMore: false });
  });
});
