import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";
import { startSandbox, type SandboxOptions } from "../../../src/sandbox/startSandbox.ts";
import {
  AT_REST,
  makeTestSandbox,
  receiveEvents,
  SANDBOX_SECRET,
  type EventReceiver,
  type ReceivedEvent,
  type TestSandbox,
} from "../../support/providers/testSandbox.ts";

let world: TestSandbox;
let live: EventReceiver;
let test: EventReceiver;

const open = async (options: Partial<SandboxOptions> = {}) => {
  const webhooks = {
    live: { url: live.url, secret: SANDBOX_SECRET },
    test: { url: test.url, secret: SANDBOX_SECRET.toUpperCase().replace("WHSEC", "whsec") },
  };
  world = await makeTestSandbox({ clock: "virtual", webhooks, ...options });
};
beforeEach(async () => {
  live = await receiveEvents();
  test = await receiveEvents();
});
afterEach(() => world.close());

const create = async (given: object = {}): Promise<string> =>
  (await world.steer("POST", "/orders", given)).references[0];
const step = (reference: string) => world.steer("POST", `/orders/${reference}/step`, {});
const verify = (
  received: ReceivedEvent,
  { scheme = "standard-webhooks", secret = SANDBOX_SECRET, at = world.sandbox.now() } = {},
) =>
  loadVerifier({ scheme: loadScheme(scheme), secrets: [secret], url: live.url }).verify({
    headersDistinct: received.rawHeaders,
    body: received.body,
    nowSeconds: Number(at / 1_000_000_000n),
  });

it("what is sent is signed by another scheme when that is configured", async () => {
  const [scheme, secret] = ["stripe", "a secret of thirty-two characters"];
  await open({ webhooks: { live: { url: live.url, secret } }, scheme });
  await step(await create());
  await world.sandbox.idle();
  expect(verify(live.received[0]!, { scheme, secret })).toMatchObject({ valid: true });
});

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
  const [own, ofOther] = [await create(), await create({ organization: "other" })];
  for (const each of [own, ofOther]) await step(each);
  await world.sandbox.idle();
  const received = [live, second, other, test].map((each) =>
    each.received.map(({ event }) => event.data.reference),
  );
  expect(received).toEqual([[own], [own], [ofOther], []]);
});

describe("attempts", () => {
  it("are repeated after 5 s, 20 s, 80 s, ... with the same bytes and id, eight in total", async () => {
    await open();
    const at: bigint[] = [];
    live.answer = () => {
      at.push(world.sandbox.now());
      return 503;
    };
    await step(await create());
    await world.sandbox.idle();
    await world.sandbox.advance(40 * 3_600_000);
    const waits = at.slice(1).map((instant, place) => Number((instant - at[place]!) / 1_000_000n));
    expect(waits).toEqual([5_000, 20_000, 80_000, 320_000, 1_280_000, 5_120_000, 20_480_000]);
    expect(live.received).toHaveLength(8);
    for (const { body } of live.received) expect(body).toEqual(live.received[0]!.body);
    const [after] = await world.steer("GET", "/events");
    expect(after.deliveries).toMatchObject([{ state: "failed", attempts: 8, status: 503 }]);
    // Each attempt is signed when it is made, so a late one is not taken for a replay.
    expect(verify(live.received[7]!, { at: at[7]! })).toMatchObject({ valid: true });
  });

  it("end with the first 2xx; a redirect is a failure and is not followed", async () => {
    await open();
    await world.steer("POST", "/dials", { retryBaseMs: 1_000 });
    live.answer = (place) => [302, 204][place] ?? 200;
    await step(await create());
    await world.sandbox.idle();
    await world.sandbox.advance(999);
    expect(live.received).toHaveLength(1);
    await world.sandbox.advance(1);
    expect(live.received).toHaveLength(2);
    const [event] = await world.steer("GET", "/events");
    expect(event.deliveries).toMatchObject([{ state: "delivered", attempts: 2, status: 204 }]);
  });

  it("end with a downgrade, too", async () => {
    await open();
    live.answer = () => 503;
    await step(await create());
    await world.sandbox.idle();
    await world.steer("POST", "/organizations/sandbox", { plan: "standard" });
    await world.sandbox.advance(60_000);
    expect(live.received).toHaveLength(1);
    const [event] = await world.steer("GET", "/events");
    expect(event).toMatchObject({ sentAs: "event", deliveries: [{ state: "failed", error: "no_plan" }] });
    for (const organization of ["sandbox", "other"]) await step(await create({ organization }));
    const [ofOther, own] = await world.steer("GET", "/events?limit=2");
    expect([ofOther.sentAs, own.sentAs]).toEqual(["no_endpoint", "no_plan"]);
  });

  it("continue after a restart for events accepted before it", async () => {
    await open();
    live.answer = () => 500;
    await step(await create());
    await world.sandbox.idle();
    await world.sandbox.close();
    live.answer = () => 200;
    const again = await startSandbox({ databaseUrl: world.database.url, ...AT_REST, clock: "virtual" });
    await again.advance(10_000);
    await again.close();
    expect(live.received).toHaveLength(2);
    expect(live.received[1]!.body).toEqual(live.received[0]!.body);
  });
});
