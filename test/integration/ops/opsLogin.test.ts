import { afterEach, describe, expect, it } from "vitest";
import { OPEN, openOpsPages } from "../../support/pages/opsServer.ts";
import { makeOpsRouter } from "../../../src/ops/opsRouter.ts";
import { setAnswerHeaders } from "../../../src/mirror/answerHeaders.ts";
import type { SignOn } from "../../../src/config/config.ts";
import { ask, serve, type TestServer } from "../../support/http/serve.ts";
import { makeHead, sendRaw } from "../../support/http/rawHttp.ts";
import { emptying } from "../../support/mirror/tables.ts";
import { addSource } from "../../support/mirror/orders.ts";
import { logInto } from "../../support/run/logInto.ts";

const { pool, queue, deps } = await openOpsPages();
await addSource(pool, "live");
const servers: TestServer[] = [];
const lines: Record<string, unknown>[] = [];
const logger = logInto((line) => lines.push(JSON.parse(line) as Record<string, unknown>));

afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
  await pool.query(emptying("ops_sessions ops_actions refetches"));
  lines.length = 0;
});

const OPERATOR = "pass:wörd&=";
const VIEWER = "look";
const LOGINS = { ...OPEN, opsPassword: OPERATOR, opsViewerPassword: VIEWER };
const NONE = { opsPassword: null, opsViewerPassword: null };
const HTML = { Accept: "text/html,application/xhtml+xml" };
const SAME_SITE = { "Sec-Fetch-Site": "same-origin" };

interface Logins {
  readonly opsPassword?: string | null;
  readonly opsViewerPassword?: string | null;
  readonly localTrust?: boolean;
  readonly signOn?: SignOn;
}

async function start(logins: Logins = {}) {
  const server = await serve(
    setAnswerHeaders,
    makeOpsRouter({ ...deps, config: { ...LOGINS, ...logins }, logger }),
  );
  servers.push(server);
  return server.url;
}

function postLogin(
  url: string,
  fields: Record<string, string>,
  headers: Record<string, string> = { Origin: url, ...SAME_SITE },
) {
  return ask(`${url}/ops/login`, {
    method: "POST",
    headers: { ...HTML, "Content-Type": "application/x-www-form-urlencoded", ...headers },
    body: String(new URLSearchParams(fields)),
  });
}

/** The cookies that a browser would send back. */
const cookieOf = ({ headers }: { headers: { "set-cookie"?: string[] | undefined } }) =>
  (headers["set-cookie"] ?? []).map((line) => line.split(";")[0]).join("; ");

async function logIn(url: string, password = OPERATOR) {
  const answer = await postLogin(url, { password });
  expect(answer.status).toBe(303);
  return { Cookie: cookieOf(answer) };
}

const look = async (url: string, headers: Record<string, string> = {}) =>
  (await ask(`${url}/ops`, { headers })).status;
const query = async (sql: string) => (await pool.query<Record<string, unknown>>(sql)).rows;
const countSessions = async () =>
  Number((await query("select count(*) from mirror.ops_sessions"))[0]!["count"]);
const readActions = () =>
  query("select role, person, action, source_id from mirror.ops_actions order by action_id");

describe("without a session", () => {
  it("every page redirects a browser to the login, and answers a program 401 without a dialog", async () => {
    const url = await start();
    for (const path of ["/ops", "/ops/queues", "/ops/actions", "/ops/nothing", "/ops/search?q=a%26b"]) {
      const page = await ask(url + path, { headers: HTML });
      expect([path, page.status]).toEqual([path, 303]);
      expect(page.headers.location).toBe(`/ops/login?next=${encodeURIComponent(path)}`);
      const answer = await ask(url + path, { headers: { Authorization: `Basic ${btoa("viewer:look")}` } });
      expect([path, answer.status, answer.headers["www-authenticate"]]).toEqual([path, 401, undefined]);
    }
  });

  it("what is pressed is not done: the login says so, and leads back to where it was pressed", async () => {
    const url = await start();
    const press = (Referer: string) =>
      ask(`${url}/ops/pause`, { method: "POST", headers: { ...HTML, ...SAME_SITE, Referer } });
    const { status, headers } = await press(`${url}/ops/sources/live?range=7d&did=resume&on=x&many=1`);
    const login = "/ops/login?next=%2Fops%2Fsources%2Flive%3Frange%3D7d&undone=1";
    expect([status, headers.location]).toEqual([303, login]);
    expect((await ask(url + login, { headers: HTML })).body).toContain("what you pressed was not done");
    for (const from of ["https://evil.example/", `${url}/ops/login?next=%2Fops`, "nonsense"])
      expect((await press(from)).headers.location).toBe("/ops/login?next=%2Fops&undone=1");
  });

  it("without any password, nobody comes in, except this machine when it is trusted", async () => {
    expect(await look(await start({ ...NONE, localTrust: false }))).toBe(403);
    const url = await start(NONE);
    expect(await look(url)).toBe(200);
    for (const name of ["X-Forwarded-For", "Fly-Client-IP", "X-Azure-ClientIP", "X-Envoy-External-Address"])
      expect(await look(url, { [name]: "127.0.0.1" })).toBe(403);
    expect((await ask(`${url}/ops/queues`, { headers: { Host: "evil.example" } })).status).toBe(403);
  });

  it.each([
    ["opsPassword", VIEWER],
    ["opsViewerPassword", OPERATOR],
  ])("a role without %s does not exist, not even for an empty password", async (role, other) => {
    const url = await start({ [role]: null });
    expect((await postLogin(url, { password: "" })).status).toBe(401);
    expect((await postLogin(url, { password: other })).status).toBe(303);
  });
});

describe("the login form", () => {
  it("leads to the requested page, never to another host or page, nor adds a header", async () => {
    const url = await start();
    const form = await ask(`${url}/ops/login?next=%2Fops%2Fsearch%3Fq%3Da%2526b`, { headers: HTML });
    expect([form.status, form.body.includes('value="/ops/search?q=a%26b"')]).toEqual([200, true]);
    const own = await postLogin(url, { password: OPERATOR, next: "/ops/search?q=a%26b" });
    expect([own.status, own.headers.location]).toEqual([303, "/ops/search?q=a%26b"]);
    const elsewhere =
      "https://evil.example/ //evil.example/ops /\\evil.example /opsevil.example ops /v1/orders";
    for (const next of [...elsewhere.split(" "), "", "\n/ops", "javascript:alert(1)"]) {
      const { headers } = await postLogin(url, { password: VIEWER, next });
      expect([next, headers.location]).toEqual([next, "/ops"]);
    }
    const split = await postLogin(url, { password: VIEWER, next: "/ops\r\nSet-Cookie: a=b" });
    expect(split.headers.location).toMatch(/^\/ops(?:%0D|$)/);
    expect(split.headers["set-cookie"]?.some((cookie) => cookie.startsWith("a=b"))).toBe(false);
  });

  it("comes again after a wrong password; the log says from where, and neither says which", async () => {
    const url = await start();
    const answer = await postLogin(url, { password: "<guess>", next: "/ops/queues" });
    expect(answer.status).toBe(401);
    expect(answer.body).toMatch(/role="alert"[^]*value="\/ops\/queues"/);
    expect(answer.headers["set-cookie"]).toBeUndefined();
    expect(lines).toEqual([expect.objectContaining({ outcome: "wrong_password", remote_ip: "127.0.0.1" })]);
    expect(JSON.stringify(lines) + answer.body).not.toContain("guess");
    expect((await postLogin(url, {})).status).toBe(401);
    expect((await postLogin(url, { password: "x".repeat(10_000) })).status).toBe(413);
  });

  it("refuses an address after ten wrong passwords, even the right one, except sessions that are logged in", async () => {
    const url = await start();
    const cookie = await logIn(url);
    for (let time = 0; time < 10; time += 1)
      expect((await postLogin(url, { password: "no" })).status).toBe(401);
    const blocked = await postLogin(url, { password: OPERATOR });
    expect(blocked.status).toBe(429);
    expect(Number(blocked.headers["retry-after"])).toBeGreaterThan(50);
    expect(await look(url, cookie)).toBe(200);
  });
});

describe("a request from another site's page", () => {
  const FOREIGN = [
    { "Sec-Fetch-Site": "cross-site" },
    { "Sec-Fetch-Site": "same-site" },
    { "Sec-Fetch-Site": "none" },
    { Origin: "https://evil.example" },
    { Origin: "null" },
    { Origin: "http://127.0.0.1:1" },
    { "Sec-Fetch-Site": "cross-site", Origin: "http://HERE" },
  ];
  const OWN = [{}, SAME_SITE, { Origin: "http://HERE" }];

  it("logs nobody in or out, and changes nothing; one from our own page does", async () => {
    const url = await start();
    const cookie = await logIn(url);
    const { name } = queue.bull;
    await queue.bull.add("events", { seqs: [1] });
    for (const [sites, status, isPaused] of [
      [FOREIGN, 403, true],
      [OWN, 200, false],
    ] as const)
      for (const site of sites) {
        await queue.bull.pause();
        const own = Object.entries(site).map(([key, value]) => [
          key,
          value.replace("HERE", new URL(url).host),
        ]);
        const headers = { ...cookie, ...(Object.fromEntries(own) as Record<string, string>) };
        const resume = `${url}/ops/queues/api/queues/${name}/resume`;
        expect([site, (await ask(resume, { method: "PUT", headers })).status]).toEqual([site, status]);
        expect([site, await queue.bull.isPaused()]).toEqual([site, isPaused]);
        if (status !== 403) continue;
        expect((await postLogin(url, { password: VIEWER }, headers)).status).toBe(403);
        expect((await ask(`${url}/ops/logout`, { method: "POST", headers })).status).toBe(403);
        expect(await look(url, cookie)).toBe(200);
      }
  });
});

describe("a session", () => {
  it("has a cookie that no script, other site or, over https, other host can use", async () => {
    const url = await start();
    const [plain] = (await postLogin(url, { password: VIEWER })).headers["set-cookie"] ?? [];
    expect(plain).toMatch(/^order_mirror=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax$/);
    const overTls = { Origin: url.replace("http:", "https:"), ...SAME_SITE };
    const answer = await postLogin(url, { password: VIEWER }, overTls);
    const [secure] = answer.headers["set-cookie"] ?? [];
    expect(secure).toMatch(/^__Host-order_mirror=[\w-]{43}; Path=\/; HttpOnly; Secure; SameSite=Lax$/);
    // Another host can plant the plain one.
    for (const planted of ["", `order_mirror=${"a".repeat(43)}; `])
      expect(await look(url, { Cookie: planted + cookieOf(answer) })).toBe(200);
    const twoProxies = { "X-Forwarded-Proto": "https,http", ...SAME_SITE };
    const [behind] = (await postLogin(url, { password: VIEWER }, twoProxies)).headers["set-cookie"] ?? [];
    expect(behind).toContain("; Secure;");
  });

  it("is new at each login and ends the previous one, so that a planted cookie is useless", async () => {
    const url = await start();
    const planted = `order_mirror=${"a".repeat(43)}`;
    const enter = async (Cookie: string) =>
      cookieOf(await postLogin(url, { password: VIEWER }, { Origin: url, Cookie }));
    const first = await enter(planted);
    expect(first).not.toBe(planted);
    expect(await look(url, { Cookie: planted })).toBe(401);
    const second = await enter(first);
    expect(await look(url, { Cookie: first })).toBe(401);
    expect(await look(url, { Cookie: second })).toBe(200);
    // Those that are over are removed.
    await query("update mirror.ops_sessions set expires_at = clock_timestamp()");
    await enter("");
    expect(await countSessions()).toBe(1);
  });

  it("cannot be taken over with the contents of its table", async () => {
    const url = await start();
    const token = (await logIn(url)).Cookie.slice("order_mirror=".length);
    const rows = await query("select * from mirror.ops_sessions");
    expect(JSON.stringify(rows)).not.toContain(token);
    const hash = rows[0]!["token_hash"] as Buffer;
    expect(hash.equals(Buffer.from(token, "base64url"))).toBe(false);
    expect(await look(url, { Cookie: `order_mirror=${hash.toString("base64url")}` })).toBe(401);
  });

  it("ends at logout, in the browser and on the server", async () => {
    const url = await start();
    const cookie = await logIn(url, VIEWER);
    const headers = { ...HTML, ...cookie, ...SAME_SITE };
    const out = await ask(`${url}/ops/logout`, { method: "POST", headers });
    expect([out.status, out.headers.location]).toEqual([303, "/ops/login"]);
    expect(out.headers["set-cookie"]?.join()).toMatch(/order_mirror=; Path=\/; Expires=Thu, 01 Jan 1970/);
    expect(await look(url, cookie)).toBe(401);
    expect(await countSessions()).toBe(0);
    expect(await readActions()).toMatchObject([
      { role: "viewer", action: "log_in" },
      { role: "viewer", action: "log_out" },
    ]);
  });

  it.each([
    ["12 h after the login", "expires_at = clock_timestamp() - interval '1 s'", 401],
    ["just before", "expires_at = clock_timestamp() + interval '1 min'", 200],
    ["when unused for 2 h", "last_seen_at = clock_timestamp() - interval '2 h 1 s'", 401],
    ["when used shortly before", "last_seen_at = clock_timestamp() - interval '1 h 59 min'", 200],
    ["when the clock was corrected by seconds", "last_seen_at = clock_timestamp() + interval '5 s'", 200],
  ])("is over, or not, %s", async (_when, assignment, status) => {
    const url = await start();
    const cookie = await logIn(url);
    await query(`update mirror.ops_sessions set ${assignment}`);
    expect(await look(url, cookie)).toBe(status);
  });

  it("lasts 12 hours, and is used by a person, not by a page that updates itself", async () => {
    const url = await start();
    const cookie = await logIn(url);
    const [life] = await query(
      "select extract(epoch from expires_at - created_at)::int as seconds from mirror.ops_sessions",
    );
    expect(life).toEqual({ seconds: 43_200 });
    await query("update mirror.ops_sessions set last_seen_at = clock_timestamp() - interval '1 h'");
    const wasUsed = async (headers: Record<string, string>) => {
      expect(await look(url, { ...cookie, ...headers })).toBe(200);
      const [seen] = await query(
        "select last_seen_at > clock_timestamp() - interval '1 min' as lately from mirror.ops_sessions",
      );
      return seen!["lately"];
    };
    expect(await wasUsed({ "Sec-Fetch-Dest": "empty" })).toBe(false);
    expect(await wasUsed({})).toBe(true);
  });

  it.each([
    ["another password", { opsPassword: "new" }],
    ["another password of a viewer", { opsViewerPassword: "new" }],
    ["no password", { opsPassword: null }],
  ])(
    "is valid in every web process, ends where one has %s, and does not come back",
    async (_how, changed) => {
      const url = await start();
      const cookie = await logIn(url);
      expect(await look(await start(), cookie)).toBe(200);
      expect(await look(await start(changed), cookie)).toBe(401);
      expect(await look(url, cookie)).toBe(401);
      expect((await readActions()).at(-1)).toMatchObject({ role: "operator", action: "log_out" });
    },
  );
});

describe("single sign-on by a proxy", () => {
  const SIGN_ON: SignOn = {
    addresses: ["127.0.0.0/8"],
    userHeader: "remote-user",
    groupsHeader: "remote-groups",
    operators: ["admins", "ada@business.example"],
    viewers: ["staff"],
  };
  const person = (user: string, groups: string) => ({ "Remote-User": user, "Remote-Groups": groups });

  it("names the person on the page and in the audit log, with the role of the groups", async () => {
    const url = await start({ ...NONE, signOn: SIGN_ON });
    for (const [user, groups, role] of [
      ["grace", "other, admins", "operator"],
      ["alan", "staff", "viewer (read-only)"],
      ["ada@business.example", "", "operator"],
      ["Zoë", "admins", "operator"],
    ] as const) {
      const headers = person(Buffer.from(user).toString("latin1"), groups);
      const { status, body } = await ask(`${url}/ops`, { headers });
      expect([user, status]).toEqual([user, 200]);
      expect(body).toContain(`${role}, ${user}`);
      expect(body).not.toContain("Log out");
    }
    const refetch = async (headers: Record<string, string>) =>
      (await ask(`${url}/ops/orders/live/R1/refetch`, { method: "POST", headers })).status;
    expect(await refetch(person("grace", "admins"))).toBe(303);
    expect(await refetch(person("alan", "staff"))).toBe(405);
    expect(await readActions()).toEqual([
      { role: "operator", person: "grace", action: "refetch", source_id: "live" },
    ]);
  });

  it("refuses a person without a role, without a name, with two names or two lists of groups", async () => {
    const url = await start({ ...NONE, signOn: SIGN_ON });
    expect(await look(url, person("eve", "unknown"))).toBe(403);
    expect(lines).toEqual([expect.objectContaining({ outcome: "no_role", remote_ip: "127.0.0.1" })]);
    expect(
      await look(await start({ ...NONE, signOn: { ...SIGN_ON, viewers: ["*"] } }), person("eve", "")),
    ).toBe(200);
    expect(await look(url, person("", "admins"))).toBe(401);
    expect(await look(url, { "Remote-Groups": "admins" })).toBe(401);
    // A proxy that adds its header, instead of replacing the client's.
    for (const [name, added] of [
      ["remote-user", "grace"],
      ["remote-groups", "unknown"],
    ] as const) {
      const head = makeHead("GET /ops", [...Object.entries(person("eve", "admins")), [name, added]]);
      expect((await sendRaw(Number(new URL(url).port), head)).status).toBe(401);
    }
  });

  it("is trusted only from the proxy's own address, next to which the password still works", async () => {
    const addresses = ["10.0.0.0/8", "192.0.2.1", "2001:db8::/32"];
    const url = await start({ signOn: { ...SIGN_ON, addresses } });
    expect(await look(url, person("grace", "admins"))).toBe(401);
    const headers = { ...person("grace", "admins"), ...(await logIn(url)) };
    const { status, body } = await ask(`${url}/ops`, { headers });
    expect([status, body.includes("grace")]).toEqual([200, false]);
  });
});

it("the headers forbid framing and content sniffing, even on responses that are no pages", async () => {
  const url = await start(NONE);
  for (const path of ["/ops", "/ops/queues", "/nothing"]) {
    const { headers } = await ask(url + path);
    expect(headers["x-content-type-options"]).toBe("nosniff");
    expect(headers["x-frame-options"]).toBe("DENY");
    expect(headers["x-powered-by"]).toBeUndefined();
    // With no-referrer, browsers would send "Origin: null" with our own forms.
    expect(headers["referrer-policy"]).toBe("same-origin");
  }
});
