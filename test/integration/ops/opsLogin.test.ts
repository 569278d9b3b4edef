import { afterEach, describe, expect, it } from "vitest";
import { openOpsPages } from "../../support/pages/opsServer.ts";
import { makeOpsRouter } from "../../../src/ops/opsRouter.ts";
import { ask } from "../../support/http/ask.ts";
import { serve } from "../../support/http/serve.ts";
import type { TestServer } from "../../support/http/serve.ts";
import { emptying } from "../../support/mirror/emptying.ts";
import { logInto } from "../../support/run/logInto.ts";

const { database, deps } = await openOpsPages();
const servers: TestServer[] = [];

afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
  await database.pool.query(emptying("ops_sessions ops_actions"));
});

const LOGINS = { opsPassword: "pass:wörd&=", opsViewerPassword: "look", localTrust: true };
const HTML = { Accept: "text/html,application/xhtml+xml" };
const SAME_SITE = { "Sec-Fetch-Site": "same-origin" };

const lines: Record<string, unknown>[] = [];
const logger = logInto((line) => lines.push(JSON.parse(line) as Record<string, unknown>));

async function start(
  logins: { opsPassword: string | null; opsViewerPassword: string | null; localTrust?: boolean } = LOGINS,
) {
  const config = { localTrust: false, ...logins };
  const server = await serve(makeOpsRouter({ ...deps, config, logger }));
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
function cookieOf({ headers }: { headers: { "set-cookie"?: string[] | undefined } }): string {
  return (headers["set-cookie"] ?? []).map((line) => line.split(";")[0]).join("; ");
}

async function logIn(url: string, password = LOGINS.opsPassword) {
  const answer = await postLogin(url, { password });
  expect(answer.status).toBe(303);
  return { Cookie: cookieOf(answer) };
}

const look = async (url: string, headers: Record<string, string>) =>
  (await ask(`${url}/ops`, { headers })).status;

const countSessions = async () =>
  Number((await database.pool.query("select count(*) from mirror.ops_sessions")).rows[0].count);

describe("the login form", () => {
  it("redirects a browser to the form, and after the password to the requested page", async () => {
    const url = await start();
    const page = await ask(`${url}/ops/search?q=a%26b`, { headers: HTML });
    expect(page.status).toBe(303);
    expect(page.headers.location).toBe("/ops/login?next=%2Fops%2Fsearch%3Fq%3Da%2526b");
    expect(page.headers["www-authenticate"]).toBeUndefined();
    const form = await ask(url + String(page.headers.location), { headers: HTML });
    expect(form.status).toBe(200);
    expect(form.body).toContain('value="/ops/search?q=a%26b"');
    const answer = await postLogin(url, { password: LOGINS.opsPassword, next: "/ops/search?q=a%26b" });
    expect([answer.status, answer.headers.location]).toEqual([303, "/ops/search?q=a%26b"]);
    expect(await look(url, { Cookie: cookieOf(answer) })).toBe(200);
  });

  it("never leads to another host or page, nor adds a header", async () => {
    const url = await start();
    const elsewhere =
      "https://evil.example/ //evil.example/ops /\\evil.example /opsevil.example ops /v1/orders";
    for (const next of [...elsewhere.split(" "), "", "\n/ops", "javascript:alert(1)"]) {
      const { headers } = await postLogin(url, { password: "look", next });
      expect([next, headers.location]).toEqual([next, "/ops"]);
    }
    const split = await postLogin(url, { password: "look", next: "/ops\r\nSet-Cookie: a=b" });
    expect(split.headers.location).toMatch(/^\/ops(?:%0D|$)/);
    expect(split.headers["set-cookie"]?.some((cookie) => cookie.startsWith("a=b"))).toBe(false);
  });

  it("determines the role, operator or viewer, by the password", async () => {
    const url = await start();
    for (const [password, role] of [
      [LOGINS.opsPassword, "operator"],
      ["look", "viewer"],
    ] as const) {
      const { body } = await ask(`${url}/ops`, { headers: { ...HTML, ...(await logIn(url, password)) } });
      expect(body).toContain(`<p class="who">${role}`);
      expect(body).toContain("Log out");
    }
    const { rows } = await database.pool.query(
      "select role, action from mirror.ops_actions order by action_id",
    );
    expect(rows).toEqual([
      { role: "operator", action: "log_in" },
      { role: "viewer", action: "log_in" },
    ]);
  });

  it("shows the form again after a wrong password, without that password", async () => {
    const url = await start();
    const answer = await postLogin(url, { password: "<guess>", next: "/ops/queues" });
    expect(answer.status).toBe(401);
    expect(answer.body).toContain('role="alert"');
    expect(answer.body).toContain('value="/ops/queues"');
    expect(answer.body).not.toContain("guess");
    expect(answer.headers["set-cookie"]).toBeUndefined();
    expect((await postLogin(url, {})).status).toBe(401);
  });

  it("logs where a wrong password came from, but not the password", async () => {
    const url = await start();
    lines.length = 0;
    await postLogin(url, { password: "<guess>" });
    expect(lines).toEqual([expect.objectContaining({ outcome: "wrong_password", remote_ip: "127.0.0.1" })]);
    expect(JSON.stringify(lines)).not.toContain("guess");
  });

  it("does not count a page's own requests as use of the session", async () => {
    const url = await start();
    const cookie = await logIn(url);
    const seenAt = async () =>
      (await database.pool.query("select max(last_seen_at) as at from mirror.ops_sessions")).rows[0].at;
    await database.pool.query(
      "update mirror.ops_sessions set last_seen_at = clock_timestamp() - interval '1 h'",
    );
    const before = await seenAt();
    expect(await look(url, { ...cookie, "Sec-Fetch-Dest": "empty" })).toBe(200);
    expect(await seenAt()).toEqual(before);
    expect(await look(url, cookie)).toBe(200);
    expect(await seenAt()).not.toEqual(before);
  });

  it("refuses an address after ten wrong passwords, except sessions that are logged in", async () => {
    const url = await start();
    const cookie = await logIn(url);
    for (let time = 0; time < 10; time += 1)
      expect((await postLogin(url, { password: "no" })).status).toBe(401);
    const blocked = await postLogin(url, { password: LOGINS.opsPassword });
    expect(blocked.status).toBe(429);
    expect(Number(blocked.headers["retry-after"])).toBeGreaterThan(50);
    expect(await look(url, cookie)).toBe(200);
  });

  it("answers 4xx to a form that is too long", async () => {
    const url = await start();
    expect((await postLogin(url, { password: "x".repeat(10_000) })).status).toBe(413);
  });

  it("answers a page's script without a challenge, so that no dialog opens", async () => {
    const url = await start();
    const answer = await ask(`${url}/ops/queues`, { headers: { "Sec-Fetch-Mode": "cors" } });
    expect(answer.status).toBe(401);
    expect(answer.headers["www-authenticate"]).toBeUndefined();
  });

  it.each([
    [{ "Sec-Fetch-Site": "cross-site" }],
    [{ "Sec-Fetch-Site": "same-site" }],
    [{ Origin: "https://evil.example" }],
    [{ Origin: "null" }],
  ])("lets no other site log a browser in or out: %j", async (headers) => {
    const url = await start();
    expect((await postLogin(url, { password: "look" }, headers)).status).toBe(403);
    const cookie = await logIn(url);
    const answer = await ask(`${url}/ops/logout`, { method: "POST", headers: { ...cookie, ...headers } });
    expect(answer.status).toBe(403);
    expect(await look(url, cookie)).toBe(200);
  });
});

describe("a session", () => {
  it("has a cookie that no script, other site or, over https, other host can use", async () => {
    const url = await start();
    const [plain] = (await postLogin(url, { password: "look" })).headers["set-cookie"] ?? [];
    expect(plain).toMatch(/^order_mirror=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax$/);
    const overTls = { Origin: url.replace("http:", "https:"), ...SAME_SITE };
    const answer = await postLogin(url, { password: "look" }, overTls);
    const [secure] = answer.headers["set-cookie"] ?? [];
    expect(secure).toMatch(/^__Host-order_mirror=[\w-]{43}; Path=\/; HttpOnly; Secure; SameSite=Lax$/);
    expect(await look(url, { Cookie: cookieOf(answer) })).toBe(200);
  });

  it("is new at each login and ends the previous one, so that a planted cookie is useless", async () => {
    const url = await start();
    const planted = `order_mirror=${"a".repeat(43)}`;
    const answer = await postLogin(url, { password: "look" }, { Origin: url, Cookie: planted });
    const first = cookieOf(answer);
    expect(first).not.toBe(planted);
    expect(await look(url, { Cookie: planted })).toBe(401);
    const second = cookieOf(await postLogin(url, { password: "look" }, { Origin: url, Cookie: first }));
    expect(await look(url, { Cookie: first })).toBe(401);
    expect(await look(url, { Cookie: second })).toBe(200);
    expect(await countSessions()).toBe(1);
  });

  it("cannot be taken over with the contents of its table", async () => {
    const url = await start();
    const { Cookie } = await logIn(url);
    const token = Cookie.slice("order_mirror=".length);
    const { rows } = await database.pool.query("select * from mirror.ops_sessions");
    expect(JSON.stringify(rows)).not.toContain(token);
    const hash = (rows[0] as { token_hash: Buffer }).token_hash;
    expect(hash.equals(Buffer.from(token, "base64url"))).toBe(false);
    expect(await look(url, { Cookie: `order_mirror=${hash.toString("base64url")}` })).toBe(401);
  });

  it("ends at logout, in the browser and on the server", async () => {
    const url = await start();
    const cookie = await logIn(url, "look");
    const out = await ask(`${url}/ops/logout`, {
      method: "POST",
      headers: { ...HTML, ...cookie, ...SAME_SITE },
    });
    expect([out.status, out.headers.location]).toEqual([303, "/ops/login"]);
    expect(out.headers["set-cookie"]?.join()).toMatch(/order_mirror=; Path=\/; Expires=Thu, 01 Jan 1970/);
    expect(await look(url, cookie)).toBe(401);
    expect(await countSessions()).toBe(0);
    const { rows } = await database.pool.query(
      "select role, action from mirror.ops_actions order by action_id",
    );
    expect(rows.at(-1)).toEqual({ role: "viewer", action: "log_out" });
  });

  it.each([
    ["12 h after the login", "expires_at = clock_timestamp() - interval '1 s'", 401],
    ["just before", "expires_at = clock_timestamp() + interval '1 min'", 200],
    ["when unused for 2 h", "last_seen_at = clock_timestamp() - interval '2 h 1 s'", 401],
    ["when used shortly before", "last_seen_at = clock_timestamp() - interval '1 h 59 min'", 200],
    ["when the clock was set back by an hour", "last_seen_at = clock_timestamp() + interval '1 h'", 401],
    ["when the clock was corrected by seconds", "last_seen_at = clock_timestamp() + interval '5 s'", 200],
  ])("is over, or not, %s", async (_when, assignment, status) => {
    const url = await start();
    const cookie = await logIn(url);
    await database.pool.query(`update mirror.ops_sessions set ${assignment}`);
    expect(await look(url, cookie)).toBe(status);
  });

  it("that began while the clock was a day ahead is over for good after the next login", async () => {
    const url = await start();
    const ahead = await logIn(url);
    const day = "interval '1 day'";
    await database.pool.query(
      `update mirror.ops_sessions set expires_at = expires_at + ${day}, last_seen_at = last_seen_at + ${day}`,
    );
    expect(await look(url, ahead)).toBe(401);
    const cookie = await logIn(url);
    expect(await look(url, cookie)).toBe(200);
    expect(await countSessions()).toBe(1);
  });

  it("lasts 12 hours, and each use resets the idle timeout", async () => {
    const url = await start();
    const cookie = await logIn(url);
    const { rows } = await database.pool.query(
      "select extract(epoch from expires_at - created_at)::int as life from mirror.ops_sessions",
    );
    expect(rows).toEqual([{ life: 43_200 }]);
    await database.pool.query(
      "update mirror.ops_sessions set last_seen_at = clock_timestamp() - interval '1 h'",
    );
    expect(await look(url, cookie)).toBe(200);
    const seen = await database.pool.query(
      "select last_seen_at > clock_timestamp() - interval '1 min' as lately from mirror.ops_sessions",
    );
    expect(seen.rows).toEqual([{ lately: true }]);
  });

  it("ends with a new password, and is valid in every web process with the same one", async () => {
    const cookie = await logIn(await start());
    expect(await look(await start(), cookie)).toBe(200);
    expect(await look(await start({ ...LOGINS, opsPassword: "new" }), cookie)).toBe(401);
    expect(await look(await start({ ...LOGINS, opsPassword: null }), cookie)).toBe(401);
  });

  it("of a viewer cannot change anything", async () => {
    const url = await start();
    const headers = { ...(await logIn(url, "look")), ...SAME_SITE };
    const answer = await ask(`${url}/ops/orders/live/X/refetch`, { method: "POST", headers });
    expect(answer.status).toBe(405);
  });

  it("of an operator rejects requests from another site", async () => {
    const url = await start();
    const headers = { ...(await logIn(url)), "Sec-Fetch-Site": "cross-site" };
    const answer = await ask(`${url}/ops/orders/live/X/refetch`, { method: "POST", headers });
    expect(answer.status).toBe(403);
  });
});
