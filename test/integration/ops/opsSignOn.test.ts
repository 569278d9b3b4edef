import { afterAll, afterEach, describe, expect, it } from "vitest";
import { makeOpsRouter } from "../../../src/ops/opsRouter.ts";
import type { SignOn } from "../../../src/runtime/config/config.ts";
import { ask } from "../../support/http/ask.ts";
import { makeHead, sendRaw } from "../../support/http/rawHttp.ts";
import { openBoardQueue } from "../../support/pages/boardQueue.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { addSource } from "../../support/mirror/orders.ts";
import { serve } from "../../support/http/serve.ts";
import type { TestServer } from "../../support/http/serve.ts";
import { emptying } from "../../support/mirror/emptying.ts";
import { logInto } from "../../support/run/logInto.ts";

const { database, pool } = await openTestDatabase({ purpose: "ops", max: 2, statementTimeoutMs: 5_000 });
const servers: TestServer[] = [];
const lines: Record<string, unknown>[] = [];
const logger = logInto((line) => lines.push(JSON.parse(line) as Record<string, unknown>));

const board = await openBoardQueue(database.url, "signOn");
await addSource(database.pool, "live");
afterEach(async () => {
  for (const server of servers.splice(0).reverse()) await server.close();
  await database.pool.query(emptying("ops_sessions ops_actions refetches"));
  lines.length = 0;
});
afterAll(() => board.close());

const SIGN_ON: SignOn = {
  addresses: ["127.0.0.0/8"],
  userHeader: "remote-user",
  groupsHeader: "remote-groups",
  operators: ["admins", "ada@business.example"],
  viewers: ["staff"],
};

async function start(signOn: SignOn, opsPassword: string | null = null): Promise<TestServer> {
  const config = { opsPassword, opsViewerPassword: null, localTrust: true, signOn };
  const server = await serve(makeOpsRouter({ pool, queues: () => [board.queue], config, logger }));
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
    const { url } = await start(SIGN_ON);
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

  it("refuses a person without a role, without a name, with two names or two lists of groups", async () => {
    const { url } = await start(SIGN_ON);
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
    const addresses = ["10.0.0.0/8", "192.0.2.1", "2001:db8::/32"];
    const { url } = await start({ ...SIGN_ON, addresses }, "the operator's password");
    expect((await look(url, person("grace", "admins"))).status).toBe(401);
    const basic = `Basic ${Buffer.from("operator:the operator's password").toString("base64")}`;
    const { status, body } = await look(url, { ...person("grace", "admins"), Authorization: basic });
    expect([status, body.includes("grace")]).toEqual([200, false]);
  });
});
