import { afterEach, describe, expect, it } from "vitest";
import { openOpsPages } from "../../support/pages/opsServer.ts";
import { setAnswerHeaders } from "../../../src/roles/serve.ts";
import { makeOpsRouter } from "../../../src/ops/opsRouter.ts";
import { ask } from "../../support/http/ask.ts";
import { serve } from "../../support/http/serve.ts";
import type { TestServer } from "../../support/http/serve.ts";

const { board, deps } = await openOpsPages();
const servers: TestServer[] = [];

afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

const LOGINS = { opsPassword: "pass:wörd", opsViewerPassword: "look" };

async function start(
  logins: { opsPassword: string | null; opsViewerPassword: string | null; localTrust?: boolean } = LOGINS,
) {
  const config = { localTrust: false, ...logins };
  const server = await serve(makeOpsRouter({ ...deps, config }));
  servers.push(server);
  return server.url;
}

const basic = (user: string, password: string) =>
  `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;
const OPERATOR = basic("operator", LOGINS.opsPassword);
const VIEWER = basic("viewer", LOGINS.opsViewerPassword);

describe("the login of programs", () => {
  it("asks for a user and a password on every page", async () => {
    const url = await start();
    for (const path of ["/ops", "/ops/queues", "/ops/actions", "/ops/nothing"]) {
      const answer = await ask(url + path);
      expect(answer.status).toBe(401);
      expect(answer.headers["www-authenticate"]).toBe('Basic realm="order-mirror", charset="UTF-8"');
    }
  });

  it.each([
    ["operator", LOGINS.opsPassword, 200],
    ["viewer", LOGINS.opsViewerPassword, 200],
    ["operator", LOGINS.opsViewerPassword, 401],
    ["viewer", LOGINS.opsPassword, 401],
    ["admin", LOGINS.opsPassword, 401],
    ["", LOGINS.opsPassword, 401],
    ["operator", "", 401],
    ["operator", `${LOGINS.opsPassword}x`, 401],
    ["constructor", "", 401],
  ])("answers %s with %s by %i", async (user, password, status) => {
    const url = await start();
    expect((await ask(`${url}/ops`, { headers: { Authorization: basic(user, password) } })).status).toBe(
      status,
    );
  });

  it.each(["Basic", "Basic ???", "Bearer look", `Basic ${Buffer.from("operator").toString("base64")}`])(
    "answers 401 to the header %s",
    async (header) => {
      const url = await start();
      expect((await ask(`${url}/ops`, { headers: { Authorization: header } })).status).toBe(401);
    },
  );

  it("refuses a role whose password is not set, even with an empty password", async () => {
    const viewersOnly = await start({ opsPassword: null, opsViewerPassword: "look" });
    expect(
      (await ask(`${viewersOnly}/ops`, { headers: { Authorization: basic("operator", "") } })).status,
    ).toBe(401);
    expect((await ask(`${viewersOnly}/ops`, { headers: { Authorization: VIEWER } })).status).toBe(200);
    const operatorsOnly = await start({ opsPassword: "x", opsViewerPassword: null });
    expect(
      (await ask(`${operatorsOnly}/ops`, { headers: { Authorization: basic("viewer", "") } })).status,
    ).toBe(401);
  });

  it("refuses an address after ten wrong passwords, even with the right one", async () => {
    const url = await start();
    const guess = { headers: { Authorization: basic("operator", "guess") } };
    for (let time = 0; time < 10; time += 1) expect((await ask(`${url}/ops`, guess)).status).toBe(401);
    const blocked = await ask(`${url}/ops`, { headers: { Authorization: OPERATOR } });
    expect(blocked.status).toBe(429);
    expect(Number(blocked.headers["retry-after"])).toBeGreaterThan(50);
  });

  it("does not count a request without a password", async () => {
    const url = await start();
    for (let time = 0; time < 15; time += 1) expect((await ask(`${url}/ops`)).status).toBe(401);
    expect((await ask(`${url}/ops`, { headers: { Authorization: OPERATOR } })).status).toBe(200);
  });
});

describe("without any password", () => {
  const NONE = { opsPassword: null, opsViewerPassword: null, localTrust: true };

  it("admits nobody, except this machine when it is trusted", async () => {
    const closed = await start({ ...NONE, localTrust: false });
    expect((await ask(`${closed}/ops`)).status).toBe(403);
    const url = await start(NONE);
    expect((await ask(`${url}/ops`)).status).toBe(200);
    expect((await ask(`${url}/ops`, { headers: { "X-Forwarded-For": "127.0.0.1" } })).status).toBe(403);
    expect((await ask(`${url}/ops/queues`, { headers: { Host: "evil.example" } })).status).toBe(403);
  });
});

describe("writes", () => {
  it.each([
    "/queues/api/queues/pause",
    "/pause",
    "/resume",
    "/gap",
    "/quarantine/retry",
    "/quarantine/dismiss",
    "/orders/live/ORD-1/refetch",
  ])("are refused to a viewer: %s", async (path) => {
    const url = await start();
    const headers = { Authorization: VIEWER, "Sec-Fetch-Site": "same-origin" };
    expect((await ask(`${url}/ops${path}`, { method: "POST", headers })).status).toBe(405);
  });

  const retry = async (headers: Record<string, string>) => {
    const url = await start();
    const { host } = new URL(url);
    const own = Object.entries(headers).map(([name, value]) => [name, value.replace("HERE", host)]);
    const type = { "Content-Type": "application/x-www-form-urlencoded" };
    await board.queue.add("events", { seqs: [1] });
    await board.failAll("a test");
    const answer = await ask(`${url}/ops/queues/api/queues/${board.queue.name}/retry/failed`, {
      method: "PUT",
      headers: { Authorization: OPERATOR, ...type, ...Object.fromEntries(own) },
      body: "",
    });
    const { failed } = await board.queue.getJobCounts("failed");
    await board.queue.obliterate({ force: true });
    return { status: answer.status, failed };
  };

  it.each([
    [{ "Sec-Fetch-Site": "cross-site" }],
    [{ "Sec-Fetch-Site": "same-site" }],
    [{ "Sec-Fetch-Site": "none" }],
    [{ Origin: "https://evil.example" }],
    [{ Origin: "null" }],
    [{ Origin: "http://127.0.0.1:1" }],
    [{ "Sec-Fetch-Site": "cross-site", Origin: "http://HERE" }],
  ])("are refused when they come from another site's page: %j", async (headers) => {
    expect(await retry(headers)).toEqual({ status: 403, failed: 1 });
  });

  it.each([[{}], [{ "Sec-Fetch-Site": "same-origin" }], [{ Origin: "http://HERE" }]])(
    "are accepted from the operator's own page or program: %j",
    async (headers) => {
      expect(await retry(headers)).toEqual({ status: 200, failed: 0 });
    },
  );
});

describe("the headers", () => {
  it("forbid loading, framing and content sniffing, even on responses that are no pages", async () => {
    const config = { opsPassword: null, opsViewerPassword: null, localTrust: true };
    const ops = makeOpsRouter({ ...deps, config });
    const server = await serve(setAnswerHeaders, ops);
    servers.push(server);
    for (const path of ["/ops", "/ops/queues", "/nothing"]) {
      const { headers } = await ask(server.url + path);
      expect(headers["content-security-policy"]).toMatch(/^default-src 'none'/);
      expect(headers["x-content-type-options"]).toBe("nosniff");
      expect(headers["x-frame-options"]).toBe("DENY");
      expect(headers["x-powered-by"]).toBeUndefined();
      // With no-referrer, browsers would send "Origin: null" with our own forms.
      expect(headers["referrer-policy"]).toBe("same-origin");
    }
  });
});
