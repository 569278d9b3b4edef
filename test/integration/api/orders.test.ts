import { beforeEach, describe, expect, it } from "vitest";
import { makePool } from "../../../src/database/database.ts";
import { ORDER_SORTS } from "../../../src/orders/orderReads.sql.ts";
import { errorBodySchema } from "../../../src/wire/api.ts";
import { insertOrder, orderText, addSource } from "../../support/mirror/orders.ts";
import { makeTestApi, startTestApi } from "../../support/mirror/served.ts";
import { ask, serve } from "../../support/http/serve.ts";
import { EMPTY_MIRROR, prove } from "../../support/mirror/tables.ts";

const BRANCH_ID = "6f1c7a52-0d7e-4a0e-9d5b-3f0f4c6e2a11";

interface ListBody {
  data: { reference: string }[];
  hasMore: boolean;
  limit: number;
  offset: number;
  request_id: string;
}

const api = await startTestApi();
beforeEach(() => api.database.pool.query(`${EMPTY_MIRROR}; delete from mirror.sources`));

const add = (fields: Record<string, unknown>, sourceId = "live") =>
  insertOrder(api.database.pool, sourceId, orderText(fields));

const get = (path: string, headers: Record<string, string> = {}) =>
  fetch(`${api.url}/v1/orders${path}`, { headers });

async function list(query: string): Promise<ListBody> {
  const response = await get(query);
  expect(response.status).toBe(200);
  return (await response.json()) as ListBody;
}

const references = async (query: string) => (await list(query)).data.map(({ reference }) => reference);

async function refusal(path: string, headers: Record<string, string> = {}) {
  const response = await get(path, headers);
  const body = errorBodySchema.required().parse(await response.json());
  expect(body.request_id).toBe(response.headers.get("x-request-id"));
  return { status: response.status, code: body.error.code, message: body.error.message };
}

it("an order is read by a reference that most clients remove from a path", async () => {
  for (const reference of [".", ".."]) {
    await add({ reference });
    const { status, body } = await ask(`${api.url}/v1/orders/${reference}`);
    expect([status, JSON.parse(body)]).toEqual([200, expect.objectContaining({ reference })]);
  }
});

it.each([
  [
    "as it was sent",
    '{ "a": 1.10,\n"2":0 ,"reference":"A","updatedAt":"AT" } \n',
    '{ "a": 1.10,\n"2":0 ,"reference":"A","updatedAt":"AT"',
  ],
  [
    "without its own",
    '{"a":{"request_id":"x"},"reference":"A","request_id":"y","updatedAt":"AT"}',
    '{"a":{"request_id":"x"},"reference":"A","updatedAt":"AT"',
  ],
])("an order is answered %s, and a request_id", async (_, sent, answered) => {
  const dated = (text: string) => text.replace("AT", "2026-11-20T10:00:00Z");
  await insertOrder(api.database.pool, "live", dated(sent));
  const response = await get("/A");
  const requestId = response.headers.get("x-request-id");
  expect(await response.text()).toBe(`${dated(answered)},"request_id":"${requestId}"}`);
});

describe("the list of orders", () => {
  it("is sorted and cut by updatedAt to the nanosecond, and sorted by reference where that is equal", async () => {
    for (const [reference, updatedAt] of [
      ["C", "2026-11-20T10:00:00.000000002Z"],
      ["B", "2026-11-20T10:00:00.000000002Z"],
      ["A", "2026-11-20T10:00:00.000000003Z"],
      ["D", "2026-11-20T11:00:00.000000001+01:00"],
    ])
      await add({ reference, updatedAt });
    expect(await references("")).toEqual(["D", "B", "C", "A"]);
    const between = (since: number, until: number) =>
      references(
        `?updatedSince=2026-11-20T10:00:00.00000000${since}Z&updatedUntil=2026-11-20T10:00:00.00000000${until}Z`,
      );
    expect(await between(1, 2)).toEqual(["D"]);
    expect(await between(2, 3)).toEqual(["B", "C"]);
    expect(await between(1, 1)).toEqual([]);
  });

  it.each(ORDER_SORTS)("sorted by %s is read by cursor from its first page on", async (sort) => {
    const same = "2026-11-20T10:00:00.000001Z";
    const orders = ["A", "B", "C", "D", "E", "F", "G"];
    for (const reference of orders)
      await add({ reference, updatedAt: same, ...(reference < "E" ? { pickupTime: same } : {}) });
    await api.database.pool.query(
      "update mirror.orders set first_seen_at = '2000-01-01' where reference = 'G'",
    );
    const seen: string[] = [];
    const links: string[] = [];
    let next: string | undefined = `?sort=${sort}&limit=2&offset=0`;
    while (next !== undefined) {
      const response = await get(next);
      const body = (await response.json()) as ListBody;
      seen.push(...body.data.map(({ reference }) => reference));
      next = /^<(\?[^>]+)>; rel="next"$/.exec(response.headers.get("link") ?? "")?.[1];
      expect(next !== undefined).toBe(body.hasMore);
      if (next !== undefined) links.push(next);
    }
    const other = sort === "updatedAt" ? "pickupTime" : "updatedAt";
    expect(links).toHaveLength(3);
    for (const link of links)
      expect((await refusal(link.replace(/sort=\w+/, `sort=${other}`))).message).toContain("cursor must be");
    expect(seen).toEqual(sort === "firstSeenAt" ? ["G", ...orders.slice(0, -1)] : orders);
  });

  it.each([
    ["a plus sign that became a space", "pickupFrom=2026-11-20T10:00:00+01:00", "%2B"],
    ["a cursor with an offset", "cursor=abc&offset=0", "cursor"],
    ["what only a single order waits for", "limit=1&updatedAfter=2026-11-20T10:00:00Z", "updatedAfter"],
    ["a misspelt parameter", "statuss=abc", "unknown parameter statuss; did you mean status?"],
    ["a parameter in capitals", "Complete=abc", "unknown parameter Complete; did you mean complete?"],
    ["a parameter that nothing resembles", "asOf=abc", "unknown parameter asOf; known are updatedSince,"],
  ])("refuses %s by name, without repeating the value", async (_, query, named) => {
    const answer = await refusal(`?${query}`);
    expect(answer).toMatchObject({ status: 422, code: "invalid_request" });
    expect(answer.message).toContain(named);
    expect(answer.message).not.toContain("abc");
  });
});

it("refuses a cursor that no answer has given", async () => {
  const write = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const forged = [
    ["updatedAt", "1"],
    ["updatedAt", 1, "A"],
    ["updatedAt", null, "A"],
    ["updatedAt", String(2n ** 63n), "A"],
    ["updatedAt", "1; drop table", "A"],
    ["updatedAt", "1", "A\0"],
    ["updatedAt", "1", "A".repeat(1_025)],
    ["createdAt", "1", "A"],
    ["updatedAt", "1", "A", "more"],
  ];
  for (const cursor of ["", "%%%", "abc", write(null), ...forged.map(write)])
    expect([cursor, await refusal(`?cursor=${cursor}`)]).toMatchObject([cursor, { status: 422 }]);
  // The ends of what a position can be.
  for (const at of [2n ** 63n - 1n, -(2n ** 63n)])
    expect((await get(`?cursor=${write(["updatedAt", String(at), "\u{1f6b2}/?"])}`)).status).toBe(200);
});

describe("branches", () => {
  const [B1, B2] = [BRANCH_ID, "7f1c7a52-0d7e-4a0e-9d5b-3f0f4c6e2a11"];
  const { pool } = api.database;
  beforeEach(async () => {
    await addSource(pool, "live");
    await addSource(pool, "test", "test");
  });
  const rawBranch = (id: string, name: string) => `{ "id":"${id}", "name":"${name}", "more": 1.10 }`;
  const addBranch = (
    id: string,
    more: { reference?: string; name?: string; closed?: boolean; sourceId?: string; position?: number },
  ) => {
    const { reference = null, name = "Centre", closed = false, sourceId = "live", position = 0 } = more;
    return pool.query(
      `insert into mirror.branches (source_id, branch_id, reference, name, raw, closed_at, position)
       values ($1, $2, $3, $4, $5, case when $6 then now() end, $7)`,
      [sourceId, id, reference, name, rawBranch(id, name), closed, position],
    );
  };
  const getBranches = () => fetch(`${api.url}/v1/branches`);

  it.each([
    ["with its id", [{ id: B1, reference: "old" }]],
    ["with its reference alone", [{ reference: "new" }]],
    ["in both ways", [{ id: B1, reference: "old" }, { reference: "new" }]],
  ])("select orders %s by the current name and by the id", async (_, named) => {
    // It was closed, and another one has its name now.
    await addBranch("0", { reference: "new", name: "Former", closed: true });
    await addBranch(B1, { reference: "new" });
    const ours = named.map((_, index) => `A${index}`);
    for (const [index, branch] of named.entries()) await add({ reference: ours[index], branch });
    await add({ reference: "B", branch: { reference: "mill" } });
    for (const name of ["new", B1, B1.toUpperCase()])
      expect(await references(`?branch=${name}`)).toEqual(ours);
    for (const view of ["orders", "order_facts"]) {
      const { rows } = await pool.query(
        `select branch_name as name, branch_reference as code from reporting.${view} order by reference`,
      );
      const centre = { name: "Centre", code: "new" };
      expect(rows).toEqual([...ours.map(() => centre), { name: null, code: "mill" }]);
    }
  });

  it("that the provider never listed are found by the name in their latest order", async () => {
    await addBranch("b0", { reference: "other" });
    await add({ reference: "A", branch: { id: B1, reference: "old" }, updatedAt: "2026-11-20T10:00:00Z" });
    await add({ reference: "B", branch: { id: B1, reference: "centre" }, updatedAt: "2026-11-20T11:00:00Z" });
    await add({ reference: "C", branch: { id: B2, reference: "west" } });
    expect(await references("?branch=centre")).toEqual(["A", "B"]);
    expect(await references("?branch=west")).toEqual(["C"]);
    for (const unknown of ["old", "Centre"]) expect((await get(`?branch=${unknown}`)).status).toBe(422);
  });

  it("are listed as the provider sent them, open ones only, and unavailable before they were read", async () => {
    const never = await getBranches();
    expect([never.status, never.headers.get("retry-after")]).toEqual([503, "5"]);
    await pool.query(
      "update mirror.sources set branches_read_at = '2026-11-20T10:00:00.123456Z' where source_id = 'live'",
    );
    await addBranch("b3", { closed: true });
    await addBranch("b4", { sourceId: "test" });
    expect(await (await getBranches()).json()).toMatchObject({ data: [], hasMore: false });
    await addBranch(B1, { name: "West", position: 2 });
    await addBranch(B2, { name: "Zoo", position: 1 });
    const response = await getBranches();
    expect([response.status, response.headers.get("x-branches-as-of")]).toEqual([
      200,
      "2026-11-20T10:00:00.123456Z",
    ]);
    const [zoo, west] = [rawBranch(B2, "Zoo"), rawBranch(B1, "West")];
    expect(await response.text()).toContain(`{"data":[${zoo},${west}],"hasMore":false,"request_id":"req_`);
  });
});

it("an order that the provider no longer has is in no answer", async () => {
  for (const reference of ["A", "B"]) await add({ reference, externalOrderId: `shop-${reference}` });
  await api.database.pool.query(
    "update mirror.orders set gone_at = now(), horizon = horizon + 1 where reference = 'B'",
  );
  expect(await references("")).toEqual(["A"]);
  for (const name of ["B", "shop-B"]) {
    const { status, headers } = await get(`/${name}?updatedAfter=1970-01-01T00:00:00Z`);
    expect([status, headers.get("x-waited")]).toEqual([404, "timeout"]);
  }
  for (const format of ["csv", "ndjson"]) {
    const lines = (await (await get(`.${format}`)).text())
      .split("\n")
      .filter((line) => line.includes("shop-"));
    expect(lines).toEqual([expect.stringContaining("shop-A")]);
  }
});

it("a single order is found by externalOrderId, after the provider's reference; of several the last changed wins", async () => {
  await add({ reference: "A", externalOrderId: "ext/1 é", updatedAt: "2026-11-20T10:00:00Z" });
  await add({ reference: "B", externalOrderId: "twice", updatedAt: "2026-11-20T12:00:00Z" });
  await add({ reference: "C", externalOrderId: "twice", updatedAt: "2026-11-20T11:00:00Z" });
  await add({ reference: "D", externalOrderId: "A", updatedAt: "2026-11-20T13:00:00Z" });
  const found = async (name: string) =>
    ((await (await get(`/${encodeURIComponent(name)}`)).json()) as { reference: string }).reference;
  expect(await found("ext/1 é")).toBe("A");
  expect(await found("twice")).toBe("B");
  expect(await found("A")).toBe("A");
});

it("every answer says up to when it is complete, with how many exceptions, and nothing while that is unknown", async () => {
  await addSource(api.database.pool, "live");
  await add({ reference: "A" });
  const paths = ["", "/A", "/nowhere", ".csv", ".ndjson"];
  const say = () =>
    Promise.all(
      paths.map(async (path) => {
        const { headers } = await get(path);
        return [headers.get("x-safe-through"), headers.get("x-safe-through-exceptions")];
      }),
    );
  expect(await say()).toEqual(paths.map(() => [null, null]));
  await prove(api.database.pool, null);
  expect(await say()).toEqual(paths.map(() => [null, null]));
  const safeThrough = "2025-11-20T10:00:00.000000001Z";
  await prove(api.database.pool, safeThrough);
  expect(await say()).toEqual(paths.map(() => [safeThrough, "0"]));
  await api.database.pool.query(
    `insert into mirror.quarantine (source_id, via, reference, reason)
     values ('live', 'poll', 'B', 'unreadable_order'), ('test', 'poll', 'C', 'unreadable_order')`,
  );
  expect(await say()).toEqual(paths.map(() => [safeThrough, "1"]));
  expect((await get(`?complete=${safeThrough}`)).status).toBe(200);
});

it.each(["?limit=5", "/A"])("answers 304 to a client that has %s already, until it changes", async (path) => {
  await addSource(api.database.pool, "live");
  await add({ reference: "A" });
  const first = await get(path);
  const etag = first.headers.get("etag") ?? "";
  expect(etag).toMatch(/^W\/"[\w-]+"$/);
  expect(first.headers.get("cache-control")).toBe("private, no-cache");
  expect(first.headers.get("vary")).toBe("Authorization, X-Source");
  await prove(api.database.pool, "2025-11-20T10:00:00Z");
  for (const known of ["*", `"other", ${etag}`, etag, etag.slice("W/".length)]) {
    const { status, headers } = await get(path, { "If-None-Match": known });
    expect([status, headers.get("etag")]).toEqual([304, etag]);
    expect(headers.get("x-safe-through")).toBe("2025-11-20T10:00:00Z");
    expect(headers.get("x-request-id")).not.toBe(first.headers.get("x-request-id"));
  }
  expect((await get(path, { "If-None-Match": '"other"' })).status).toBe(200);
  const raw = orderText({ reference: "A", status: "x" });
  await api.database.pool.query("update mirror.orders set raw = $1", [raw]);
  const changed = await get(path, { "If-None-Match": etag });
  expect([changed.status, changed.headers.get("etag") === etag]).toEqual([200, false]);
});

it("answers 503 with Retry-After and a constant body when the database does not answer", async () => {
  const url = "postgres://127.0.0.1:1/none";
  const away = makePool({ url, purpose: "read", max: 1, statementTimeoutMs: 500 });
  const stranded = await serve(makeTestApi({ pool: away }));
  for (const path of ["", "/A", "/A?updatedAfter=2026-11-20T10:00:00Z&wait=30"]) {
    const { status, headers, body } = await ask(`${stranded.url}/v1/orders${path}`);
    expect([status, headers["retry-after"], headers["cache-control"]]).toEqual([503, "5", "no-store"]);
    expect(JSON.parse(body)).toMatchObject({ error: { code: "temporarily_unavailable" } });
    expect(body).not.toMatch(/ECONNREFUSED|127\.0\.0\.1|node:|\.ts/);
  }
  await stranded.close();
  await away.end();
});
