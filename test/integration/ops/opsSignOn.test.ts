import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { makePool } from "../../../src/database/database.ts";
import type { Pool } from "../../../src/database/database.ts";
import { makeOpsRouter } from "../../../src/ops/opsRouter.ts";
import type { SignOn } from "../../../src/runtime/config/signOnVariables.ts";
import { findFreePort } from "../../../src/runtime/postgres/freePort.ts";
import { makeLogger } from "../../../src/runtime/telemetry/logger.ts";
import { ask } from "../../support/http/ask.ts";
import { makeHead, sendRaw } from "../../support/http/rawHttp.ts";
import { openBoardQueue } from "../../support/pages/boardQueue.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";
import { startIdentityProvider } from "../../support/http/identityProvider.ts";
import type { IdentityProvider } from "../../support/http/identityProvider.ts";
import { addSource } from "../../support/mirror/orders.ts";
import { serve, serveAt } from "../../support/http/serve.ts";
import type { TestServer } from "../../support/http/serve.ts";
import { emptying } from "../../support/mirror/emptying.ts";

let database: TestDatabase;
let pool: Pool;
let board: Awaited<ReturnType<typeof openBoardQueue>>;
const servers: { close(): Promise<void> }[] = [];
const lines: Record<string, unknown>[] = [];
const logger = makeLogger({
  level: "warn",
  format: "json",
  service: "test",
  destination: { write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) },
});

beforeAll(async () => {
  database = await makeTestDatabase();
  pool = makePool({ url: database.url, purpose: "ops", max: 2, statementTimeoutMs: 5_000 });
  board = await openBoardQueue(database.url, "signOn");
  await addSource(database.pool, "live");
  await addSource(database.pool, "test");
});
afterEach(async () => {
  for (const server of servers.splice(0).reverse()) await server.close();
  await database.pool.query(emptying("ops_sessions ops_actions refetches"));
  lines.length = 0;
});
afterAll(async () => {
  await board.close();
  await pool.end();
  await database.drop();
});

const GRANTS = {
  operators: [
    { name: "admins", sourceId: null },
    { name: "shop-test", sourceId: "test" },
    { name: "ada@business.example", sourceId: null },
  ],
  viewers: [{ name: "staff", sourceId: null }],
} satisfies Partial<SignOn>;
const PROXY = { addresses: ["127.0.0.0/8"], userHeader: "remote-user", groupsHeader: "remote-groups" };

async function start(signOn: SignOn, opsPassword: string | null = null): Promise<TestServer> {
  const config = { opsPassword, opsViewerPassword: null, localTrust: true, signOn };
  const server = await serve(makeOpsRouter({ pool, queue: board.queue, config, logger }));
  servers.push(server);
  return server;
}

const refetch = (url: string, source: string, headers: Record<string, string>) =>
  ask(`${url}/ops/orders/${source}/R1/refetch`, { method: "POST", headers });

const readActions = async () =>
  (
    await database.pool.query(
      "select role, person, action, source_id from mirror.ops_actions order by action_id",
    )
  ).rows;

describe("single sign-on by a proxy", () => {
  const person = (user: string, groups: string) => ({ "Remote-User": user, "Remote-Groups": groups });
  const look = async (url: string, headers: Record<string, string>) => await ask(`${url}/ops`, { headers });

  it("names the person on the page and in the audit log, with the role of the groups", async () => {
    const { url } = await start({ proxy: PROXY, openIdConnect: null, ...GRANTS });
    for (const [user, groups, role] of [
      ["grace", "other, admins", "operator"],
      ["alan", "staff", "viewer"],
      ["ada@business.example", "", "operator"],
      ["Zoë", "admins", "operator"],
    ] as const) {
      const utf8 = Buffer.from(user).toString("latin1");
      const { status, body } = await look(url, person(utf8, groups));
      expect([user, status]).toEqual([user, 200]);
      expect(body).toContain(`${role}${role === "viewer" ? " (read-only)" : ""}, ${user}`);
    }
    expect((await refetch(url, "live", person("grace", "admins"))).status).toBe(303);
    expect((await refetch(url, "live", person("alan", "staff"))).status).toBe(405);
    expect(await readActions()).toEqual([
      { role: "operator", person: "grace", action: "refetch", source_id: "live" },
    ]);
  });

  it("lets a group change only its own source", async () => {
    const { url } = await start({ proxy: PROXY, openIdConnect: null, ...GRANTS });
    const shop = person("grace", "shop-test");
    expect((await refetch(url, "test", shop)).status).toBe(303);
    expect((await refetch(url, "live", shop)).status).toBe(403);
    expect((await ask(`${url}/ops/queues/retry`, { method: "POST", headers: shop })).status).toBe(403);
    const decide = (source: string) =>
      ask(`${url}/ops/quarantine/retry`, {
        method: "POST",
        headers: { ...shop, "Content-Type": "application/x-www-form-urlencoded" },
        body: `through=1&source=${source}`,
      });
    expect([(await decide("test")).status, (await decide("live")).status, (await decide("")).status]).toEqual(
      [303, 403, 403],
    );
  });

  it("refuses a person without a role, without a name, with two names or two lists of groups", async () => {
    const { url } = await start({ proxy: PROXY, openIdConnect: null, ...GRANTS });
    expect((await look(url, person("eve", "unknown"))).status).toBe(403);
    expect(lines).toEqual([expect.objectContaining({ outcome: "no_role", remote_ip: "127.0.0.1" })]);
    expect((await look(url, person("", "admins"))).status).toBe(401);
    expect((await look(url, { "Remote-Groups": "admins" })).status).toBe(401);
    const twice = await fetch(`${url}/ops`, {
      headers: [
        ["Remote-User", "eve"],
        ["remote-user", "grace"],
        ["Remote-Groups", "admins"],
      ],
    });
    expect(twice.status).not.toBe(200);
    // A proxy that adds its header, instead of replacing the client's.
    const added = await sendRaw(
      Number(new URL(url).port),
      makeHead("GET /ops", [
        ["Remote-User", "eve"],
        ["Remote-Groups", "admins"],
        ["remote-groups", "unknown"],
      ]),
    );
    expect(added.status).toBe(401);
  });

  it("is trusted only from the proxy's own address", async () => {
    const proxy = { ...PROXY, addresses: ["10.0.0.0/8", "192.0.2.1", "2001:db8::/32"] };
    const { url } = await start({ proxy, openIdConnect: null, ...GRANTS }, "the operator's password");
    expect((await look(url, person("grace", "admins"))).status).toBe(401);
    const basic = `Basic ${Buffer.from("operator:the operator's password").toString("base64")}`;
    const { status, body } = await look(url, { ...person("grace", "admins"), Authorization: basic });
    expect([status, body.includes("grace")]).toEqual([200, false]);
  });
});

describe("OpenID Connect", () => {
  /** A browser that keeps cookies and follows redirects until it reaches the ops pages. */
  function openBrowser() {
    const cookies = new Map<string, Map<string, string>>();
    async function get(address: string, headers: Record<string, string> = {}) {
      const { host } = new URL(address);
      const own = cookies.get(host) ?? new Map<string, string>();
      cookies.set(host, own);
      const Cookie = [...own].map(([name, value]) => `${name}=${value}`).join("; ");
      const answer = await ask(address, {
        headers: { Accept: "text/html", Connection: "close", Cookie, ...headers },
      });
      for (const line of answer.headers["set-cookie"] ?? []) {
        const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
        if (value === "") own.delete(name);
        else own.set(name, value);
      }
      return answer;
    }
    async function follow(
      address: string,
      until = 10,
    ): Promise<Awaited<ReturnType<typeof get>> & { at: string }> {
      const answer = await get(address);
      const { location } = answer.headers;
      if (location === undefined || until === 0) return { ...answer, at: address };
      return follow(new URL(location, address).href, until - 1);
    }
    const cookie = (address: string, name: string) => cookies.get(new URL(address).host)?.get(name) ?? "";
    return { get, follow, cookie };
  }

  async function startBoth(more: Partial<SignOn> = {}, settings: { publicUrl?: string } = {}) {
    const port = await findFreePort();
    const publicUrl = `http://127.0.0.1:${port}`;
    const issuer: IdentityProvider = await startIdentityProvider(`${publicUrl}/ops/login/oidc/done`);
    servers.push(issuer);
    const openIdConnect = {
      issuer: issuer.issuer,
      clientId: issuer.clientId,
      clientSecret: issuer.clientSecret,
      groupsClaim: "groups",
      scope: "openid email profile",
      publicUrl,
      ...settings,
    };
    const serveWith = async (grants: Partial<SignOn>) => {
      const signOn = { proxy: null, openIdConnect, ...GRANTS, ...grants };
      const config = { opsPassword: null, opsViewerPassword: null, localTrust: true, signOn };
      servers.push(await serveAt(port, makeOpsRouter({ pool, queue: board.queue, config, logger })));
    };
    await serveWith(more);
    const restart = async (grants: Partial<SignOn>) => {
      await servers.pop()?.close();
      await serveWith(grants);
    };
    return { issuer, url: publicUrl, restart };
  }

  it("logs a person in by name, with the role of the groups", async () => {
    const { issuer, url } = await startBoth();
    issuer.signIn({ sub: "u1", email: "grace@business.example", email_verified: true, groups: ["admins"] });
    const browser = openBrowser();
    const form = await browser.follow(`${url}/ops/search?q=R1`);
    expect(form.body).toContain("/ops/login/oidc?next=%2Fops%2Fsearch%3Fq%3DR1");
    expect(form.body).not.toContain('type="password"');
    const page = await browser.follow(`${url}/ops/login/oidc?next=%2Fops%2Fsearch%3Fq%3DR1`);
    expect([page.at, page.status]).toEqual([`${url}/ops/orders?q=R1`, 200]);
    expect(page.body).toContain("operator, grace@business.example");
    expect(await readActions()).toEqual([
      { role: "operator", person: "grace@business.example", action: "log_in", source_id: null },
    ]);
    const { rows } = await database.pool.query("select person, sources from mirror.ops_sessions");
    expect(rows).toEqual([{ person: "grace@business.example", sources: null }]);
  });

  it("names a person without a verified address by the subject, and grants no role to an unverified address", async () => {
    const { issuer, url } = await startBoth();
    issuer.signIn({ sub: "u2", email: "ada@business.example", email_verified: false, groups: [] });
    const refused = await openBrowser().follow(`${url}/ops/login/oidc`);
    expect([refused.status, refused.body]).toEqual([403, expect.stringContaining("has a role")]);
    issuer.signIn({ sub: "u3", email: "ada@business.example", groups: ["shop-test"] });
    const page = await openBrowser().follow(`${url}/ops/login/oidc`);
    expect(page.body).toContain("operator, u3");
    const { rows } = await database.pool.query("select person, sources from mirror.ops_sessions");
    expect(rows).toEqual([{ person: "u3", sources: ["test"] }]);
  });

  it("rejects an answer that it did not request, and one that comes twice", async () => {
    const { issuer, url } = await startBoth();
    issuer.signIn({ sub: "u1", groups: ["admins"] });
    const [own, stranger] = [openBrowser(), openBrowser()];
    // Opens the stranger's answer in another person's browser (login CSRF).
    let address = `${url}/ops/login/oidc`;
    for (;;) {
      const { location } = (await stranger.get(address)).headers;
      address = new URL(location ?? "", address).href;
      if (address.includes("/ops/login/oidc/done?")) break;
    }
    await own.get(`${url}/ops/login/oidc`);
    for (const forged of [
      address,
      `${url}/ops/login/oidc/done?code=x&state=y`,
      `${url}/ops/login/oidc/done`,
    ]) {
      const answer = await own.get(forged);
      expect([answer.status, answer.headers.location]).toEqual([401, undefined]);
    }
    expect((await stranger.get(address)).status).toBe(303);
    expect((await stranger.get(address)).status).toBe(401);
    expect(lines.every(({ outcome }) => outcome === "openid_connect_failed")).toBe(true);
    expect(JSON.stringify(lines)).not.toContain(new URL(address).searchParams.get("code"));
  });

  it.each([
    ["a text", "admins", 200],
    ["a list within a list", [["admins"]], 403],
    ["an object", { admins: true }, 403],
    ["a list in one text", "staff,admins", 403],
    ["another case", ["Admins"], 403],
    ["text with a space", ["admins "], 403],
  ])("grants roles only to groups by their name: %s", async (_what, groups, status) => {
    const { issuer, url } = await startBoth();
    issuer.signIn({ sub: "u1", groups });
    expect((await openBrowser().follow(`${url}/ops/login/oidc`)).status).toBe(status);
  });

  it.each([
    "//evil.example",
    "/ops//evil.example",
    "/ops/..//evil.example",
    "/ops\\evil.example",
    "/opsevil",
    "https://evil.example/ops",
    "/ops?a\r\nSet-Cookie: x=1",
  ])("leads to no other host after the login: %j", async (next) => {
    const { issuer, url } = await startBoth();
    issuer.signIn({ sub: "u1", groups: ["admins"] });
    const browser = openBrowser();
    let address = `${url}/ops/login/oidc?next=${encodeURIComponent(next)}`;
    for (let done = false; !done;) {
      done = address.includes("/ops/login/oidc/done?");
      const { location } = (await browser.get(address)).headers;
      address = new URL(location ?? "", address).href;
    }
    expect(new URL(address).origin).toBe(url);
    expect(new URL(address).pathname).toMatch(/^\/(ops|\/evil)/);
  });

  it("ends the sessions of a person whose role was taken away", async () => {
    const { issuer, url, restart } = await startBoth();
    issuer.signIn({ sub: "u1", email: "ada@business.example", email_verified: true });
    const browser = openBrowser();
    expect((await browser.follow(`${url}/ops/login/oidc`)).status).toBe(200);
    await restart({});
    expect((await browser.get(`${url}/ops`)).status).toBe(200);
    await restart({ operators: [{ name: "admins", sourceId: null }] });
    expect((await browser.get(`${url}/ops`)).headers.location).toContain("/ops/login");
  });

  it("uses the cookies that no other host can plant, if there are such", async () => {
    const { issuer, url } = await startBoth({}, { publicUrl: "https://ops.business.example" });
    const { headers } = await ask(`${url}/ops/login/oidc`);
    expect(headers["set-cookie"]).toEqual([
      expect.stringMatching(/^__Host-order_mirror_login=.*; Path=\/;.* Secure/),
    ]);
    const sessions: string[] = [];
    const local = await startBoth();
    for (const sub of ["own", "planted"]) {
      local.issuer.signIn({ sub, groups: ["admins"] });
      const browser = openBrowser();
      await browser.follow(`${local.url}/ops/login/oidc`);
      sessions.push(browser.cookie(local.url, "order_mirror"));
    }
    const [own, planted] = sessions;
    for (const cookie of [
      `__Host-order_mirror=${own}; order_mirror=${planted}`,
      `order_mirror=${planted}; __Host-order_mirror=${own}`,
    ]) {
      const page = await ask(`${local.url}/ops`, { headers: { Accept: "text/html", Cookie: cookie } });
      expect(page.body).toContain("operator, own");
    }
    await ask(`${local.url}/ops/logout`, {
      method: "POST",
      headers: { Cookie: `__Host-order_mirror=${own}; order_mirror=${planted}` },
    });
    expect((await database.pool.query("select from mirror.ops_sessions")).rows).toEqual([]);
    expect(issuer.issuer).not.toBe(local.issuer.issuer);
  });

  it("refuses an answer of another issuer, and tells nobody who tried", async () => {
    const { issuer, url } = await startBoth();
    issuer.signIn({ sub: "u1", email: "secret@business.example", email_verified: true, groups: ["admins"] });
    const browser = openBrowser();
    let address = `${url}/ops/login/oidc`;
    while (!address.includes("/ops/login/oidc/done?")) {
      const { location } = (await browser.get(address)).headers;
      address = new URL(location ?? "", address).href;
    }
    const mixed = new URL(address);
    mixed.searchParams.set("iss", "https://other.example");
    const started = browser.cookie(url, "order_mirror_login");
    const answer = await browser.get(mixed.href);
    expect(answer.status).toBe(401);
    // The answer belongs to another nonce, as if an ID token of another login were injected.
    const value = JSON.parse(Buffer.from(started, "base64url").toString()) as Record<string, string>;
    const other = Buffer.from(JSON.stringify({ ...value, nonce: "another-nonce" })).toString("base64url");
    const injected = await ask(address, { headers: { Cookie: `order_mirror_login=${other}` } });
    expect(injected.status).toBe(401);
    const twice = await ask(`${address}&state=x`, { headers: { Cookie: `order_mirror_login=${started}` } });
    expect(twice.status).toBe(401);
    expect(lines).toHaveLength(3);
    expect(JSON.stringify(lines)).not.toMatch(/secret@business|another-nonce/);
    expect((await database.pool.query("select from mirror.ops_sessions")).rows).toEqual([]);
  });

  it("reports that the issuer does not answer, and retries at the next login", async () => {
    const { issuer, url } = await startBoth();
    await issuer.close();
    const answer = await openBrowser().get(`${url}/ops/login/oidc`);
    expect([answer.status, answer.body]).toEqual([401, expect.stringContaining("sign-on failed")]);
  });
});
