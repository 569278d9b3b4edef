import { Redis } from "ioredis";
import { afterAll, afterEach, expect, it } from "vitest";
import { formatInstant, instantFromMillis } from "../../../src/domain/order/instant.ts";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { makeEventBody, makeOrder } from "../../support/mirror/orders.ts";
import { runProgram, startProgram, stopPrograms } from "../../support/programs/program.ts";
import { canStartRedis, startRedis } from "../../support/servers/redis.ts";
import {
  json,
  refusal,
  startScriptedProvider,
  text,
  type Step,
} from "../../support/providers/scriptedProvider.ts";
import { sendEvent, WEBHOOK_SECRET } from "../../support/signing/signing.ts";
import { logIn } from "../../support/http/serve.ts";

/** Data that only a reader of the order may see; each is a word that occurs nowhere else. */
const PERSON = {
  firstName: "Xanthippe",
  lastName: "Quirrelstone",
  phone: "+31655501277",
  email: "xq@canary.example",
  address: { street: "Zeepaardjeskade 77", city: "Ouwerkerk", postcode: "4305 ZQ" },
};
const NOTE = "ring twice at the vermilion door";
const SECRETS = {
  DELIVERY_LIVE_API_KEY: "dos_live_4f9canarykey01",
  DELIVERY_LIVE_WEBHOOK_SECRETS: `${WEBHOOK_SECRET},whsec_${Buffer.from("another canary, 32 bytes long!!!").toString("base64")}`,
  API_TOKENS: "canary-api-token-7731",
  OPS_PASSWORD: "canary ops password",
  OPS_VIEWER_PASSWORD: "canary viewer password",
  METRICS_TOKEN: "canary-metrics-token",
};
const FORBIDDEN = [
  "Xanthippe",
  "Quirrelstone",
  "55501277",
  "xq@canary",
  "Zeepaardjeskade",
  "Ouwerkerk",
  "4305 ZQ",
  "vermilion",
  ...Object.values(SECRETS).flatMap((value) => value.split(",")),
];
const AUTHORIZED = { authorization: `Bearer ${SECRETS.API_TOKENS}` };

const secondsAgo = (seconds: number) => formatInstant(instantFromMillis(Date.now() - seconds * 1_000));
const personal = { customer: PERSON, note: NOTE };

const { database } = await openTestDatabase();
const provider = await startScriptedProvider();
afterEach(stopPrograms);
afterAll(() => provider.close());

/** Answers lists with one good and one unreadable order, after some refusals that name the person. */
function playProvider(): void {
  const order = makeOrder({ reference: "POLLED", updatedAt: secondsAgo(60), more: personal });
  const unreadable = { reference: "UNREADABLE", updatedAt: "yesterday", ...personal };
  const troubles: Step[] = [
    text(200, `<html>${NOTE}</html>`, { "content-type": "text/html" }),
    text(200, `{"data":[{"customer":"${PERSON.firstName}`, { "content-type": "application/json" }),
    refusal(500, "oops"),
  ];
  provider.script((response, request) => {
    const { pathname, searchParams } = new URL(request.url, provider.url);
    if (pathname === "/v1/branches") return json(200, { data: [], hasMore: false })(response, request);
    if (pathname !== "/v1/orders") return json(200, order)(response, request);
    const trouble = troubles.shift();
    if (trouble !== undefined) return trouble(response, request);
    const since = searchParams.get("updatedSince") ?? "";
    const until = searchParams.get("updatedUntil") ?? "";
    const updatedAtMs = Date.parse(order.updatedAt);
    const inside = Date.parse(since) <= updatedAtMs && updatedAtMs < Date.parse(until);
    const data = inside ? [order, unreadable] : [];
    json(200, { data, hasMore: false, limit: 200, offset: 0 })(response, request);
  });
}

async function sendEvents(url: string): Promise<void> {
  const order = { reference: "TOLD", updatedAt: secondsAgo(30), more: personal };
  const bodies = [
    makeEventBody({ id: "evt_1", order }),
    makeEventBody({ id: "evt_mode", order: { ...order, livemode: false } }),
    makeEventBody({ id: "evt_time", order: { ...order, updatedAt: NOTE } }),
    Buffer.from(`{"id":"evt_cut","data":{"customer":${JSON.stringify(PERSON)}`),
    Buffer.from(NOTE),
  ];
  for (const [place, body] of bodies.entries()) {
    expect(await sendEvent(`${url}/webhooks/live`, { id: `msg_${place}`, body })).toBe(200);
  }
  const unsigned = await fetch(`${url}/webhooks/live?q=${PERSON.firstName}`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-customer": PERSON.phone, "webhook-id": NOTE },
    body: JSON.stringify(PERSON),
  });
  expect(unsigned.status).toBe(401);
}

/** Everything that the program shows, except to readers of orders. */
async function readPages(url: string): Promise<string> {
  const publicPages = "/livez /readyz /metrics /ops/login /ops /nothing /v1/orders /docs".split(" ");
  const opsPages = [
    ..."/ops /ops/orders/live/TOLD /ops/orders/live/POLLED /ops/quarantine /ops/actions /ops/sources/live".split(
      " ",
    ),
    "/ops/queues/api/queues?activeQueue=apply&status=completed",
  ];
  const texts: string[] = [];
  for (const [pages, headers] of [
    [publicPages, { accept: "text/html" }],
    [opsPages, await logIn(url, SECRETS.OPS_PASSWORD)],
  ] as const) {
    for (const page of pages) {
      const answer = await fetch(url + page, { headers, redirect: "manual" });
      texts.push(`${page} ${JSON.stringify([...answer.headers])} ${await answer.text()}`);
    }
  }
  return texts.join("\n");
}

/** Every text in the database outside the orders themselves, including jobs. */
async function readDatabase(): Promise<string> {
  const { rows } = await database.pool.query<{ name: string }>(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables
     where schemaname = 'bullmq' or schemaname = 'mirror' and tablename not in
       ('orders', 'inbox', 'changes', 'history', 'quarantine') and tablename !~ '^(inbox|history)_'`,
  );
  const sayings = [
    "select reason from mirror.history",
    "select reason, detail from mirror.quarantine",
    ...rows.map(({ name }) => `select * from ${name}`),
  ];
  const results = await Promise.all(sayings.map((sql) => database.pool.query<Record<string, unknown>>(sql)));
  return JSON.stringify(results.map((result) => result.rows));
}

async function readRedis(url: string): Promise<string> {
  const client = new Redis(url);
  try {
    const keys = await client.keys("*");
    expect(keys).not.toEqual([]);
    const texts: string[] = [];
    for (const key of keys) {
      const type = await client.type(key);
      if (type === "hash") texts.push(JSON.stringify(await client.hgetall(key)));
      if (type === "string") texts.push((await client.get(key)) ?? "");
      if (type === "list") texts.push(JSON.stringify(await client.lrange(key, 0, -1)));
      if (type === "zset") texts.push(JSON.stringify(await client.zrange(key, "0", "-1")));
      if (type === "stream") texts.push(JSON.stringify(await client.xrange(key, "-", "+")));
    }
    return [...keys, ...texts].join("\n");
  } finally {
    client.disconnect();
  }
}

it("names, phones, addresses and secrets reach only readers of the order", async () => {
  const redis = canStartRedis ? await startRedis() : undefined;
  const port = await findFreePort();
  playProvider();
  const env = {
    ...SECRETS,
    DATABASE_URL: database.url,
    ...(redis ? { REDIS_URL: redis.url } : {}),
    DELIVERY_BASE_URL: provider.url,
    PORT: String(port),
    POLL_INTERVAL_SECONDS: "1",
    BACKFILL_SINCE: "PT1H",
    LOG_LEVEL: "trace",
    LOG_FORMAT: "json",
  };
  const url = `http://127.0.0.1:${port}`;
  const up = startProgram(["up"], env);
  await up.waitFor(/web is ready/);
  await sendEvents(url);
  for (const reference of ["TOLD", "POLLED"]) {
    const read = async () => (await fetch(`${url}/v1/orders/${reference}`, { headers: AUTHORIZED })).text();
    // Readers of the order get all of it; otherwise there was nothing to find.
    await expect.poll(read, { timeout: 90_000 }).toContain(PERSON.address.street);
  }
  const quarantined = async () => (await database.pool.query("select from mirror.quarantine")).rowCount;
  await expect.poll(quarantined, { timeout: 60_000 }).toBeGreaterThanOrEqual(5);

  const shown: Record<string, string> = {
    pages: await readPages(url),
    database: await readDatabase(),
    ...(redis ? { redis: await readRedis(redis.url) } : {}),
  };
  for (const command of [["status"], ["doctor"], ["order", "TOLD"]]) {
    const { stdout, stderr } = await runProgram(command, env);
    shown[command.join(" ")] = stdout + stderr;
  }
  const { stdout, stderr } = await up.stop("SIGTERM");
  shown["log"] = stdout + stderr;
  await redis?.stop();
  expect(shown["log"].split("\n").length).toBeGreaterThan(20);
  expect(shown["pages"]).toContain("TOLD");
  for (const [where, found] of Object.entries(shown)) {
    const leaked = FORBIDDEN.filter((word) => found.toLowerCase().includes(word.toLowerCase()));
    expect([where, leaked]).toEqual([where, []]);
  }
});
