import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { FaultsPatch } from "../../../src/sandbox/control/faults.ts";
import type { SandboxOptions } from "../../../src/sandbox/startSandbox.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";
import {
  makeTestSandbox,
  orderBody,
  receiveEvents,
  SANDBOX_SECRET,
} from "../../support/providers/testSandbox.ts";
import type { EventReceiver, TestSandbox } from "../../support/providers/testSandbox.ts";

let world: TestSandbox;
let live: EventReceiver;
beforeEach(async () => {
  live = await receiveEvents();
});
afterEach(() => world.close());

const open = async (options: Partial<SandboxOptions> = {}) => {
  const webhooks = { live: { url: live.url, secret: SANDBOX_SECRET } };
  world = await makeTestSandbox({ clock: "virtual", webhooks, ...options });
};
const turn = (patch: FaultsPatch) => world.steer("POST", "/faults", patch);
const makeOrders = async (count: number): Promise<string[]> =>
  (await world.steer("POST", "/orders", { count })).references;
const step = (reference: string) => world.steer("POST", `/orders/${reference}/step`, {});
const get = (reference: string) => world.ask("GET", `/v1/orders/${reference}`);
const list = (query = "") => world.ask("GET", `/v1/orders?limit=200${query}`);
const receivedOf = (reference: string) =>
  live.received.filter(({ event }) => event.data.reference === reference);

describe("events", () => {
  it("a share of them is lost, the same one in every run", async () => {
    await open();
    const runs: string[][] = [];
    for (let run = 0; run < 2; run += 1) {
      await world.steer("POST", "/reset", { seed: 5 });
      await turn({ loseShare: 0.3 });
      for (const reference of await makeOrders(60)) await step(reference);
      await world.sandbox.idle();
      runs.push(live.received.splice(0).map(({ event }) => event.data.reference));
    }
    expect(runs[0]!.length).toBeGreaterThan(30);
    expect(runs[0]!.length).toBeLessThan(55);
    expect(runs[1]!.toSorted()).toEqual(runs[0]!.toSorted());
    const events = await world.steer("GET", "/events?limit=100");
    expect(events.filter((event: { sentAs: string }) => event.sentAs === "lost")).toHaveLength(
      60 - runs[0]!.length,
    );
  });

  it("a share of them is sent twice, with the same bytes and id", async () => {
    await open();
    await turn({ duplicateShare: 1 });
    const [reference] = await makeOrders(1);
    await step(reference!);
    await world.sandbox.idle();
    expect(live.received).toHaveLength(2);
    expect(live.received[1]!.body).toEqual(live.received[0]!.body);
  });

  it("a share of them is late, so that later ones overtake them", async () => {
    await open();
    await turn({ delayShare: 0.5, delayMs: 60_000 });
    const references = await makeOrders(12);
    for (const reference of references) {
      await step(reference);
      await step(reference);
    }
    await world.sandbox.advance(60_000);
    const orderings = references.map((reference) => receivedOf(reference).map(({ event }) => event.type));
    expect(orderings.every((types) => types.length === 2)).toBe(true);
    expect(orderings.filter(([first]) => first === "order.picked_up").length).toBeGreaterThan(0);
  });

  it("a share of them has a well-formed signature that does not verify, until that is switched off", async () => {
    await open();
    live.answer = () => 401;
    await turn({ corruptShare: 1 });
    const [reference] = await makeOrders(1);
    await step(reference!);
    await world.sandbox.idle();
    await turn({ corruptShare: 0 });
    live.answer = () => 200;
    await world.sandbox.advance(5_000);
    const verifier = loadVerifier({ scheme: loadScheme("standard-webhooks"), secrets: [SANDBOX_SECRET] });
    const verdicts = live.received.map(({ rawHeaders, body }) =>
      verifier.verify({
        headersDistinct: rawHeaders,
        body,
        nowSeconds: Number(world.sandbox.now() / 1_000_000_000n),
      }),
    );
    expect(verdicts.map(({ valid }) => valid)).toEqual([false, true]);
  });
});

describe("late commits", () => {
  it("show a change only some time after its updatedAt, while its event is on time", async () => {
    await open();
    const [reference] = await makeOrders(1);
    await turn({ lateCommitShare: 1, lateCommitMs: 8_000 });
    const shown = await step(reference!);
    expect(shown.status).toBe("arrived_for_pickup");
    await world.sandbox.idle();
    expect(live.received[0]!.event.data.status).toBe("arrived_for_pickup");
    await world.sandbox.advance(7_000);
    expect((await get(reference!)).json.status).toBe("created");
    expect((await list("&status=arrived_for_pickup")).json.data).toEqual([]);
    await world.sandbox.advance(1_001);
    const seen = (await get(reference!)).json;
    expect([seen.status, seen.updatedAt]).toEqual(["arrived_for_pickup", shown.updatedAt]);
    expect((await list("&status=arrived_for_pickup")).json.data).toHaveLength(1);
  });
});

describe("lists", () => {
  const references = async (query = "") =>
    (await list(query)).json.data.map((order: { reference: string }) => order.reference) as string[];

  it("come in descending order or unsorted", async () => {
    await open();
    const made = await makeOrders(20);
    expect(await references()).toEqual(made);
    await turn({ listOrder: "descending" });
    expect(await references()).toEqual(made.toReversed());
    await turn({ listOrder: "unsorted" });
    const unsorted = await references();
    expect(unsorted.toSorted()).toEqual(made.toSorted());
    expect(unsorted).not.toEqual(made);
    expect(await references()).toEqual(unsorted);
  });

  it("break ties at random, and only ties", async () => {
    await open({ faults: { timestampGranularity: "s" } });
    const early = await makeOrders(15);
    await world.sandbox.advance(5_000);
    const late = await makeOrders(15);
    await turn({ listTies: "random" });
    const pages = [await references(), await references()];
    for (const page of pages) {
      expect(page.slice(0, 15).toSorted()).toEqual(early.toSorted());
      expect(page.slice(15).toSorted()).toEqual(late.toSorted());
    }
    expect(pages[0]).not.toEqual(pages[1]);
  });

  it("treat both bounds as inclusive, or both as exclusive", async () => {
    await open();
    const made = await makeOrders(5);
    const times = await Promise.all(made.map(async (each) => (await get(each)).json.updatedAt));
    const period = `&updatedSince=${encodeURIComponent(times[1])}&updatedUntil=${encodeURIComponent(times[3])}`;
    expect(await references(period)).toEqual([made[1], made[2]]);
    await turn({ listBounds: "inclusive" });
    expect(await references(period)).toEqual([made[1], made[2], made[3]]);
    await turn({ listBounds: "exclusive" });
    expect(await references(period)).toEqual([made[2]]);
  });
});

describe("requests", () => {
  it("get 5xx during a storm, in the configured share", async () => {
    await open();
    await turn({ failShare: 0.5, failStatus: 502 });
    const answers = await Promise.all(Array.from({ length: 60 }, () => list()));
    const failed = answers.filter(({ status }) => status === 502);
    expect(failed.length).toBeGreaterThan(15);
    expect(failed.length).toBeLessThan(45);
    expect(failed[0]!.headers.has("ratelimit-policy")).toBe(true);
  });

  it("get half of the JSON", async () => {
    await open();
    await turn({ truncateShare: 1 });
    const answer = await list();
    expect(answer.status).toBe(200);
    expect(() => JSON.parse(answer.text)).toThrow(SyntaxError);
  });

  it("lose the connection before or after they take effect", async () => {
    await open();
    await turn({ dropBeforeShare: 1 });
    await expect(world.ask("POST", "/v1/orders", { body: orderBody() })).rejects.toThrow("fetch failed");
    await turn({ dropBeforeShare: 0, dropAfterShare: 1 });
    await expect(world.ask("POST", "/v1/orders", { body: orderBody() })).rejects.toThrow("fetch failed");
    await turn({ dropAfterShare: 0 });
    expect((await list()).json.data).toHaveLength(1);
    const { requests } = await world.steer("GET", "/state");
    expect(requests).toMatchObject({ "createOrder 0": 2, "listOrders 200": 1 });
  });
});
