import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";
import { startSandbox, type Sandbox, type SandboxOptions } from "../../../src/sandbox/startSandbox.ts";
import { makeTestDatabase, type TestDatabase } from "../../support/servers/database.ts";
import {
  LIVE,
  orderBody,
  receiveEvents,
  SANDBOX_SECRET,
  speakTo,
  type EventReceiver,
  type ReceivedEvent,
} from "../../support/providers/testSandbox.ts";

let database: TestDatabase;
let sandbox: Sandbox;
let world: ReturnType<typeof speakTo>;
let live: EventReceiver;
let test: EventReceiver;

const open = async (options: Partial<SandboxOptions> = {}) => {
  sandbox = await startSandbox({
    databaseUrl: database.url,
    port: 0,
    speed: 0,
    rateLimits: false,
    clock: "virtual",
    webhooks: {
      live: { url: live.url, secret: SANDBOX_SECRET },
      test: { url: test.url, secret: SANDBOX_SECRET.toUpperCase().replace("WHSEC", "whsec") },
    },
    ...options,
  });
  world = speakTo(sandbox);
};
beforeEach(async () => {
  database = await makeTestDatabase();
  live = await receiveEvents();
  test = await receiveEvents();
});
afterEach(async () => {
  await sandbox.close();
  await database.drop();
});

const create = async (key = LIVE) => {
  const answer = await world.ask("POST", "/v1/orders", { key, body: orderBody() });
  return answer.json.reference as string;
};
const step = (reference: string, plan: object = {}) => world.steer("POST", `/orders/${reference}/step`, plan);
const nowSeconds = () => Number(sandbox.now() / 1_000_000_000n);
const verify = (
  received: ReceivedEvent,
  { scheme = "standard-webhooks", secret = SANDBOX_SECRET, at = nowSeconds() } = {},
) =>
  loadVerifier({ scheme: loadScheme(scheme), secrets: [secret], url: live.url }).verify({
    headersDistinct: received.rawHeaders,
    body: received.body,
    nowSeconds: at,
  });

it.each(["stripe", "courier.com"])(
  "what is sent is signed by the scheme %s when that is configured",
  async (scheme) => {
    const secret = /standard|svix/.test(scheme) ? SANDBOX_SECRET : "a secret of thirty-two characters";
    await open({ webhooks: { live: { url: live.url, secret } }, scheme });
    await step(await create());
    await sandbox.idle();
    expect(verify(live.received[0]!, { scheme, secret })).toMatchObject({ valid: true });
  },
);

it("goes to each endpoint of its organization and mode, and to no other", async () => {
  await open();
  const addEndpoint = async (endpoint: object) => {
    const receiver = await receiveEvents();
    const secret = `whsec_${Buffer.from(receiver.url).toString("base64")}`;
    await world.steer("POST", "/webhooks", { ...endpoint, url: receiver.url, secret });
    return receiver;
  };
  const second = await addEndpoint({ name: "second" });
  const other = await addEndpoint({ organization: "other" });
  const reference = await create();
  const { references } = await world.steer("POST", "/orders", { organization: "other" });
  for (const each of [reference, references[0]]) await step(each);
  await sandbox.idle();
  const received = [live, second, other, test].map((each) =>
    each.received.map(({ event }) => event.data.reference),
  );
  expect(received).toEqual([[reference], [reference], [references[0]], []]);
});

describe("attempts", () => {
  it("are repeated after 5 s, 20 s, 80 s, ... with the same bytes and id, eight in total", async () => {
    await open();
    const at: bigint[] = [];
    live.answer = () => {
      at.push(sandbox.now());
      return 503;
    };
    await step(await create());
    await sandbox.idle();
    await sandbox.advance(40 * 3_600_000);
    const waits = at.slice(1).map((instant, place) => Number((instant - at[place]!) / 1_000_000n));
    expect(waits).toEqual([5_000, 20_000, 80_000, 320_000, 1_280_000, 5_120_000, 20_480_000]);
    expect(live.received).toHaveLength(8);
    for (const { body } of live.received) expect(body).toEqual(live.received[0]!.body);
    const [after] = await world.steer("GET", "/events");
    expect(after.deliveries).toMatchObject([{ state: "failed", attempts: 8, status: 503 }]);
    // Each attempt is signed when it is made, so a late one is not taken for a replay.
    const signedAt = Number(at[7]! / 1_000_000_000n);
    expect(verify(live.received[7]!, { at: signedAt })).toMatchObject({ valid: true });
  });

  it("end with the first 2xx; a redirect is a failure and is not followed", async () => {
    await open();
    await world.steer("POST", "/dials", { retryBaseMs: 1_000 });
    live.answer = (place) => [302, 204][place] ?? 200;
    await step(await create());
    await sandbox.idle();
    await sandbox.advance(999);
    expect(live.received).toHaveLength(1);
    await sandbox.advance(1);
    expect(live.received).toHaveLength(2);
    const [event] = await world.steer("GET", "/events");
    expect(event.deliveries).toMatchObject([{ state: "delivered", attempts: 2, status: 204 }]);
  });

  it("end with a downgrade, too", async () => {
    await open();
    live.answer = () => 503;
    await step(await create());
    await sandbox.idle();
    await world.steer("POST", "/organizations/sandbox", { plan: "standard" });
    await sandbox.advance(60_000);
    expect(live.received).toHaveLength(1);
    const [event] = await world.steer("GET", "/events");
    expect(event.deliveries).toMatchObject([{ state: "failed", error: "no_plan" }]);
  });

  it("continue after a restart for events accepted before it", async () => {
    await open();
    live.answer = () => 500;
    await step(await create());
    await sandbox.idle();
    await sandbox.close();
    live.answer = () => 200;
    await open();
    await sandbox.advance(10_000);
    expect(live.received).toHaveLength(2);
    expect(live.received[1]!.body).toEqual(live.received[0]!.body);
  });
});
