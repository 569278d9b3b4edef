import { once } from "node:events";
import { connect } from "node:net";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { makePool } from "../../../src/database/database.ts";
import { LISTED_MAX, RANGES_MAX } from "../../../src/wire/reconcile.ts";
import { serve } from "../../support/http/serve.ts";
import type { TestServer } from "../../support/http/serve.ts";
import { insertOrder, orderText } from "../../support/mirror/mirroredOrders.ts";
import { makeTestReport } from "../../support/mirror/report.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";

const SALT = "00".repeat(16);
const NOTHING = `0.${"0".repeat(32)}`;
const HASH = "ab".repeat(16);

let database: TestDatabase;
let pool: ReturnType<typeof makePool>;
let server: TestServer;

beforeAll(async () => {
  database = await makeTestDatabase();
  pool = makePool({ url: database.url, purpose: "report", max: 2, statementTimeoutMs: 5_000 });
  server = await serve(
    makeTestReport({
      pool,
      apiTokens: [
        { token: "token-of-live", sourceId: "live" },
        { token: "token-of-test", sourceId: "test" },
      ],
    }),
  );
  await insertOrder(database.pool, "live", orderText({ reference: "LIVE" }));
  await insertOrder(database.pool, "test", orderText({ reference: "TEST" }));
});
afterAll(async () => {
  await server.close();
  await pool.end();
  await database.drop();
});

interface Answer {
  readonly status: number;
  readonly body: {
    readonly position?: string;
    readonly differing?: {
      readonly range: number;
      readonly orders?: { readonly order: { readonly reference: string } }[];
      readonly gone?: string[];
    }[];
    readonly error?: { readonly code: string; readonly message: string };
  };
}

async function send(body: string, headers: Record<string, string> = {}): Promise<Answer> {
  const response = await fetch(`${server.url}/v1/reconcile`, {
    method: "POST",
    headers: { authorization: "Bearer token-of-live", "content-type": "application/json", ...headers },
    body,
  });
  return { status: response.status, body: (await response.json()) as Answer["body"] };
}
const ask = (ranges: unknown, headers?: Record<string, string>) =>
  send(JSON.stringify({ salt: SALT, ranges }), headers);
const everything = (states?: [string, string][]) => [{ fingerprint: NOTHING, states }];

/** The message of a 400; otherwise the status. */
async function refusalOf(body: unknown): Promise<string> {
  const answer = await send(typeof body === "string" ? body : JSON.stringify(body));
  const { code, message } = answer.body.error ?? {};
  return answer.status === 400 && code === "invalid_request" ? String(message) : `${answer.status} ${code}`;
}

describe("POST /v1/reconcile", () => {
  it("answers each token with the orders of its own source only", async () => {
    const { body } = await ask(everything([["TEST", HASH]]));
    expect(body.differing?.[0]?.orders?.map(({ order }) => order.reference)).toEqual(["LIVE"]);
    expect(body.differing?.[0]?.gone).toEqual(["TEST"]);
    const test = await ask(everything([]), { authorization: "Bearer token-of-test" });
    expect(test.body.differing?.[0]?.orders?.map(({ order }) => order.reference)).toEqual(["TEST"]);
    const mixed = await ask(everything(), { "x-source": "test" });
    expect([mixed.status, mixed.body.error?.code]).toEqual([422, "unknown_source"]);
    const stranger = await ask(everything(), { authorization: "Bearer guess" });
    expect([stranger.status, stranger.body.error?.code]).toEqual([401, "invalid_api_key"]);
  });

  it("says that a range differs, without its orders unless it is listed", async () => {
    const { status, body } = await ask([{ until: "0", fingerprint: NOTHING }, { fingerprint: NOTHING }]);
    expect(status).toBe(200);
    expect(body.differing).toEqual([{ range: 1, fingerprint: expect.stringMatching(/^1\.[0-9a-f]{32}$/) }]);
    expect(body.position).toMatch(/^[0-9a-f]{12}\./);
    const [found] = body.differing as unknown as { fingerprint: string }[];
    const equal = await ask([{ fingerprint: found?.fingerprint }]);
    expect(equal.body.differing).toEqual([]);
  });

  it("is refused with another method", async () => {
    const response = await fetch(`${server.url}/v1/reconcile`, {
      headers: { authorization: "Bearer token-of-live" },
    });
    expect([response.status, response.headers.get("allow")]).toEqual([405, "POST"]);
  });

  it("refuses another form with one sentence that names the mistake", async () => {
    const range = { fingerprint: NOTHING };
    expect(await refusalOf("")).toMatch(/^salt must be /);
    expect(await refusalOf("{")).toMatch(/cannot be read/);
    expect(await refusalOf([])).toMatch(/^The body must be a JSON object\.$/);
    expect(await refusalOf({ ranges: [range] })).toMatch(/^salt must be 32 lower-case hexadecimal digits\.$/);
    expect(await refusalOf({ salt: SALT })).toMatch(/^ranges must be a list of 1 to 2000 ranges\.$/);
    expect(await refusalOf({ salt: SALT, ranges: [] })).toMatch(
      /^ranges must be a list of 1 to 2000 ranges\.$/,
    );
    expect(await refusalOf({ salt: SALT, ranges: [null] })).toMatch(/^ranges\[0\] must be an object\.$/);
    expect(await refusalOf({ salt: SALT, ranges: [{}] })).toMatch(
      /^ranges\[0\]\.fingerprint must be a number, a point/,
    );
    for (const since of ["", "1.", "1.a", "99999999999999999999", "9223372036854775808", "1;drop", 1, null])
      expect(await refusalOf({ salt: SALT, ranges: [{ ...range, since }] })).toMatch(
        /^ranges\[0\]\.since must be nanos/,
      );
    for (const states of [{}, [["A"]], [["A", "b"]], [["", HASH]], [["A\0", HASH]], [["A\ud800", HASH]]])
      expect(await refusalOf({ salt: SALT, ranges: [{ ...range, states }] })).toMatch(
        /^ranges\[0\]\.states.* must be /,
      );
  });

  it("refuses ranges that overlap or are empty, so that a request reads each order once", async () => {
    const overlap = /^ranges\[1\] must begin before it ends, and not before the end of the one before\.$/;
    const first = { until: "10", fingerprint: NOTHING };
    for (const second of [
      { since: "9" },
      { until: "10" },
      { since: "12", until: "11" },
      { since: "12.ab", until: "12" },
    ])
      expect(await refusalOf({ salt: SALT, ranges: [first, { ...second, fingerprint: NOTHING }] })).toMatch(
        overlap,
      );
    // The first one has no end of its own, so nothing can follow.
    expect(
      await refusalOf({ salt: SALT, ranges: [{ fingerprint: NOTHING }, { fingerprint: NOTHING }] }),
    ).toMatch(overlap);
  });

  it("bounds what one request may ask for", async () => {
    const many = Array.from({ length: RANGES_MAX + 1 }, (_, each) => ({
      until: String(each + 1),
      fingerprint: NOTHING,
    }));
    expect(await refusalOf({ salt: SALT, ranges: many })).toMatch(
      /^ranges must be a list of 1 to 2000 ranges\.$/,
    );
    const states = Array.from({ length: LISTED_MAX + 1 }, (_, each) => [`DO-${each}`, HASH]);
    expect(await refusalOf({ salt: SALT, ranges: [{ fingerprint: NOTHING, states }] })).toMatch(
      /at most 5000 states/,
    );
    // The server does not read the rest, so the connection is of no further use.
    const long = JSON.stringify({ salt: SALT, more: "x".repeat(1_100_000) });
    const answer = await send(long, { connection: "close" });
    expect([answer.status, answer.body.error?.code]).toEqual([413, "payload_too_large"]);
  });

  it("answers any JSON with 200, or with 400 and one sentence", async () => {
    // The unit "binary" takes a second to build, longer than an idle connection lasts on a busy machine.
    const codeUnit = fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit));
    const bound = fc.oneof(
      fc.bigInt().map(String),
      fc.constantFrom("0", "1.ab", "1700000000000000000"),
      fc.string(),
    );
    const range = fc.record(
      {
        since: bound,
        until: bound,
        fingerprint: fc.oneof(fc.constant(NOTHING), fc.string()),
        states: fc.array(fc.tuple(fc.string({ unit: codeUnit }), fc.constantFrom(HASH, "")), {
          maxLength: 3,
        }),
      },
      { requiredKeys: [] },
    );
    const near = fc.record({ salt: fc.constantFrom(SALT, ""), ranges: fc.array(range, { maxLength: 3 }) });
    const statuses = new Set<number>();
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          near.map((body) => JSON.stringify(body)),
          fc.json(),
        ),
        async (text) => {
          const { status, body } = await send(text);
          statuses.add(status);
          expect([200, 400]).toContain(status);
          expect(body.error?.message ?? "It was answered.").toMatch(/^[A-Za-z].*\.$/);
        },
      ),
      {
        numRuns: 300,
        examples: [
          [JSON.stringify({ salt: SALT, ranges: [{ fingerprint: NOTHING, states: [["A", HASH]] }] })],
        ],
      },
    );
    expect(statuses).toEqual(new Set([400, 200]));
  });

  it("lets few requests of a source wait, however slowly their bodies come, and others of other sources", async () => {
    const { hostname, port } = new URL(server.url);
    const head = [
      "POST /v1/reconcile HTTP/1.1",
      `Host: ${hostname}:${port}`,
      "Authorization: Bearer token-of-live",
      "Content-Type: application/json",
      "Content-Length: 1000000",
    ].join("\r\n");
    const held = Array.from({ length: 5 }, () => connect(Number(port), hostname));
    for (const socket of held) socket.write(`${head}\r\n\r\n{`);
    const refused = await Promise.any(held.map((socket) => once(socket, "data")));
    expect(String(refused[0])).toMatch(/^HTTP\/1.1 503/);
    const busy = await ask(everything());
    expect([busy.status, busy.body.error?.code]).toEqual([503, "too_many_waits"]);
    expect((await ask(everything(), { authorization: "Bearer token-of-test" })).status).toBe(200);
    for (const socket of held) socket.destroy();
    await vi.waitFor(async () => expect((await ask(everything())).status).toBe(200), 60_000);
  });
});
