import { randomBytes } from "node:crypto";
import { request } from "node:http";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { findFreePort } from "../../../src/runtime/postgres/freePort.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { makeSigner } from "../../../src/signature/sign.ts";
import { makeTestDatabase, type TestDatabase } from "../../support/servers/database.ts";
import { at, makeEventBody } from "../../support/mirror/orders.ts";
import { startProgram, stopPrograms, type RunningProgram } from "../../support/programs/program.ts";

const [OLD, NEW] = [randomBytes(32), randomBytes(32)].map(
  (secret) => `whsec_${secret.toString("base64")}`,
) as [string, string];

let database: TestDatabase;
beforeAll(async () => {
  database = await makeTestDatabase();
});
afterEach(stopPrograms);
afterAll(() => database.drop());

const baseEnv = () => ({
  DATABASE_URL: database.url,
  DELIVERY_BASE_URL: "http://127.0.0.1:9",
  DELIVERY_LIVE_API_KEY: "dos_live_0123456789",
  LOG_FORMAT: "json",
});

/** Status of one request; null when nothing listens, or the connection ended without an answer. */
function ask(
  port: number,
  options: { path: string; method?: string; headers: Record<string, string>; body?: Buffer },
): Promise<number | null> {
  return new Promise((resolve) => {
    const { path, method = "GET", headers, body } = options;
    const asking = request({ host: "127.0.0.1", port, path, method, headers, timeout: 20_000 });
    asking.once("response", (response) => {
      response.resume().once("end", () => resolve(response.statusCode ?? null));
      response.once("error", () => resolve(null));
    });
    asking.once("error", () => resolve(null));
    asking.once("timeout", () => asking.destroy());
    asking.end(body);
  });
}

it("webhook secret and API token rotate over two web processes under traffic, and nothing is refused", async () => {
  const ports = [await findFreePort(), await findFreePort()] as const;
  const startWeb = async (place: 0 | 1, secrets: string, tokens: string): Promise<RunningProgram> => {
    const web = startProgram(["web"], {
      ...baseEnv(),
      PORT: String(ports[place]),
      DELIVERY_LIVE_WEBHOOK_SECRETS: secrets,
      API_TOKENS: tokens,
    });
    await web.waitFor(/web is ready/);
    return web;
  };
  const webs: [RunningProgram, RunningProgram] = [
    await startWeb(0, OLD, "token-before-rotation"),
    await startWeb(1, OLD, "token-before-rotation"),
  ];
  // Acts as a load balancer: uses another process when one is unreachable or is shutting down.
  const viaBalancer = async (options: Parameters<typeof ask>[1]): Promise<number> => {
    for (let attempt = 0; ; attempt += 1) {
      const status = await ask(ports[attempt % 2 === 0 ? 0 : 1], options);
      if (status !== null && status !== 503) return status;
    }
  };
  let [secret, token] = [OLD, "token-before-rotation"];
  let [sent, stopping] = [0, false];
  const statuses = new Map<number, number>();
  const send = async () => {
    while (!stopping) {
      const id = `evt_${(sent += 1)}`;
      const body = makeEventBody({ id, order: { reference: `R${sent}`, updatedAt: at(sent) } });
      const sign = makeSigner({ scheme: loadScheme("standard-webhooks"), secret });
      const headers = {
        "content-type": "application/json",
        ...sign({ id, body, nowSeconds: Math.floor(Date.now() / 1_000) }),
      };
      const event = await viaBalancer({ path: "/webhooks/live", method: "POST", headers, body });
      const read = await viaBalancer({ path: "/v1/orders", headers: { authorization: `Bearer ${token}` } });
      for (const status of [event, read]) statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  };
  const senders = [send(), send()];
  const someMore = async () => {
    const before = sent;
    await expect.poll(() => sent, { timeout: 60_000, interval: 20 }).toBeGreaterThan(before + 20);
  };
  const restartBoth = async (secrets: string, tokens: string) => {
    for (const place of [0, 1] as const) {
      await webs[place].stop("SIGTERM");
      webs[place] = await startWeb(place, secrets, tokens);
      await someMore();
    }
  };
  await someMore();
  await restartBoth(`${NEW},${OLD}`, "token-after-rotation,token-before-rotation");
  [secret, token] = [NEW, "token-after-rotation"];
  await someMore();
  await restartBoth(NEW, "token-after-rotation");
  stopping = true;
  await Promise.all(senders);

  expect([...statuses.keys()]).toEqual([200]);
  const { rows } = await database.pool.query<{ events: number }>(
    "select count(distinct event_id)::int as events from mirror.inbox",
  );
  expect(rows[0]?.events).toBe(sent);
  // Now the old ones are refused.
  const body = makeEventBody({ id: "evt_late", order: { reference: "LATE", updatedAt: at(1) } });
  const nowSeconds = Math.floor(Date.now() / 1_000);
  const headers = makeSigner({ scheme: loadScheme("standard-webhooks"), secret: OLD })({
    id: "x",
    body,
    nowSeconds,
  });
  const late = { path: "/webhooks/live", method: "POST", body };
  expect(await viaBalancer({ ...late, headers: { "content-type": "application/json", ...headers } })).toBe(
    401,
  );
  expect(
    await viaBalancer({ path: "/v1/orders", headers: { authorization: "Bearer token-before-rotation" } }),
  ).toBe(401);
});
