import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { FaultsPatch } from "../../../src/sandbox/control/faults.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";
import {
  makeTestSandbox,
  orderBody,
  receiveEvents,
  SANDBOX_SECRET,
  type EventReceiver,
  type ReceivedEvent,
  type TestSandbox,
} from "../../support/providers/testSandbox.ts";

let world: TestSandbox;
let live: EventReceiver;
const openWorld = () => {
  const webhooks = { live: { url: live.url, secret: SANDBOX_SECRET } };
  return makeTestSandbox({ clock: "virtual", webhooks });
};
beforeEach(async () => {
  live = await receiveEvents();
  world = await openWorld();
});
afterEach(() => world.close());

const turn = (patch: FaultsPatch) => world.steer("POST", "/faults", patch);
const makeOrders = async (count: number): Promise<string[]> =>
  (await world.steer("POST", "/orders", { count })).references;
/** The next status of each order, once each. */
const stepAll = async (references: readonly string[]) => {
  for (const reference of references) await world.steer("POST", `/orders/${reference}/step`, {});
};
const get = async (reference: string) => (await world.ask("GET", `/v1/orders/${reference}`)).json;
const list = (query = "") => world.ask("GET", `/v1/orders?limit=200${query}`);
const STATUSES = ["created", "arrived_for_pickup", "picked_up", "arrived_for_delivery", "delivered"];
const isBetween = (from: number, to: number) => expect.toSatisfy((count) => count > from && count < to);

describe("events", () => {
  it("a share of them is lost, the same one in every run", async () => {
    const runs: string[][] = [];
    for (let run = 0; run < 2; run += 1) {
      await world.close();
      world = await openWorld();
      await turn({ loseShare: 0.3 });
      await stepAll(await makeOrders(40));
      await world.sandbox.idle();
      runs.push(live.received.splice(0).map(({ event }) => event.data.reference));
    }
    const [first = [], second = []] = runs;
    expect(first.length).toEqual(isBetween(20, 37));
    expect(second.toSorted()).toEqual(first.toSorted());
    const events = (await world.steer("GET", "/events?limit=100")) as { sentAs: string }[];
    expect(events.filter(({ sentAs }) => sentAs === "lost")).toHaveLength(40 - first.length);
  });

  it("a share of them is sent twice, with the same bytes and id", async () => {
    await turn({ duplicateShare: 1 });
    await stepAll(await makeOrders(1));
    await world.sandbox.idle();
    expect(live.received).toHaveLength(2);
    expect(live.received[1]!.body).toEqual(live.received[0]!.body);
  });

  it("a share of them is late, so that later ones overtake them", async () => {
    await turn({ delayShare: 0.5, delayMs: 60_000 });
    const references = await makeOrders(12);
    await stepAll(references.flatMap((reference) => [reference, reference]));
    await world.sandbox.advance(60_000);
    const orderings = references.map((reference) =>
      live.received.filter(({ event }) => event.data.reference === reference).map(({ event }) => event.type),
    );
    expect(orderings.every((types) => types.length === 2)).toBe(true);
    expect(orderings.some(([first]) => first === "order.picked_up")).toBe(true);
  });

  it("a share of them has a well-formed signature that does not verify, until that is switched off", async () => {
    live.answer = () => 401;
    await turn({ corruptShare: 1 });
    await stepAll(await makeOrders(1));
    await world.sandbox.idle();
    await turn({ corruptShare: 0 });
    live.answer = () => 200;
    await world.sandbox.advance(5_000);
    const verifier = loadVerifier({ scheme: loadScheme("standard-webhooks"), secrets: [SANDBOX_SECRET] });
    const nowSeconds = Number(world.sandbox.now() / 1_000_000_000n);
    const verdicts = live.received.map(({ rawHeaders: headersDistinct, body }) =>
      verifier.verify({ headersDistinct, body, nowSeconds }),
    );
    expect(verdicts.map(({ valid }) => valid)).toEqual([false, true]);
  });
});

describe("late commits", () => {
  it("show a change only some time after its updatedAt, while its event is on time", async () => {
    const [reference = ""] = await makeOrders(1);
    await turn({ lateCommitShare: 1, lateCommitMs: 8_000 });
    await world.sandbox.advance(60_000);
    await stepAll([reference]);
    await world.sandbox.idle();
    const [{ event }] = live.received as [ReceivedEvent];
    const { status, updatedAt } = event.data;
    expect([status, updatedAt]).toEqual(["arrived_for_pickup", event.created]);
    await world.sandbox.advance(7_000);
    expect((await get(reference)).status).toBe("created");
    expect((await list("&status=arrived_for_pickup")).json.data).toEqual([]);
    await world.sandbox.advance(1_001);
    expect(await get(reference)).toMatchObject({ status, updatedAt });
    expect((await list("&status=arrived_for_pickup")).json.data).toHaveLength(1);
  });

  it("show the changes of an order in their sequence, and hold up no fleet", async () => {
    await turn({ lateCommitShare: 0.5, lateCommitMs: 20_000 });
    const references = await makeOrders(12);
    await world.steer("POST", "/dials", { speed: 40 });
    const seen = new Map<string, string[]>();
    for (let look = 0; look < 40; look += 1) {
      await world.sandbox.advance(8_000);
      for (const { reference, status } of (await list()).json.data) {
        const statuses = seen.get(reference) ?? [];
        if (statuses.at(-1) !== status) seen.set(reference, [...statuses, status]);
      }
    }
    for (const reference of references) {
      const statuses = seen.get(reference) ?? [];
      expect(statuses).toEqual(STATUSES.filter((status) => statuses.includes(status)));
      expect(statuses.at(-1)).toBe("delivered");
      const events = live.received.filter(({ event }) => event.data.reference === reference);
      expect(events.map(({ event }) => event.data.status)).toEqual(STATUSES.slice(1));
    }
  });

  it("are known to whoever writes", async () => {
    await turn({ lateCommitShare: 1, lateCommitMs: 60_000 });
    const body = orderBody({ externalOrderId: "late" });
    const create = async () => (await world.ask("POST", "/v1/orders", { body })).status;
    expect([await create(), await create()]).toEqual([201, 409]);
    // What follows a late change waits for it.
    await turn({ lateCommitShare: 0 });
    expect((await world.ask("POST", "/v1/orders/late/cancel")).json.status).toBe("cancelled");
    await world.sandbox.advance(59_000);
    expect((await get("late")).error.code).toBe("order_not_found");
    await world.sandbox.advance(1_001);
    expect((await get("late")).status).toBe("cancelled");
  });
});

it("updatedAt never decreases, even if the provider's clock is set back", async () => {
  const [reference = ""] = await makeOrders(1);
  const { updatedAt } = await get(reference);
  await turn({ clockSkewMs: -60_000 });
  await stepAll([reference]);
  expect(await get(reference)).toMatchObject({ status: "arrived_for_pickup", updatedAt });
});

describe("lists", () => {
  const references = async (query = "") =>
    (await list(query)).json.data.map((order: { reference: string }) => order.reference) as string[];

  it("come in descending order or unsorted", async () => {
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
    await turn({ timestampGranularity: "s" });
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
    const made = await makeOrders(5);
    const times = await Promise.all(made.map(async (each) => (await get(each)).updatedAt));
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
    await turn({ failShare: 0.5, failStatus: 502 });
    const answers = await Promise.all(Array.from({ length: 60 }, () => list()));
    const failed = answers.filter(({ status }) => status === 502);
    expect(failed.length).toEqual(isBetween(15, 45));
    expect(failed[0]!.headers.has("ratelimit-policy")).toBe(true);
  });

  it("fail, wait and break off at one endpoint alone, or of one order", async () => {
    const [reference = ""] = await makeOrders(1);
    const statuses = () =>
      Promise.all(
        ["/v1/orders", "/v1/branches", `/v1/orders/${reference}`].map(async (path) =>
          world.ask("GET", path).then(
            ({ status }) => status,
            () => 0,
          ),
        ),
      );
    await turn({ onlyEndpoint: "listOrders", failShare: 1 });
    expect(await statuses()).toEqual([503, 200, 200]);
    await turn({ failShare: 0, dropBeforeShare: 1 });
    expect(await statuses()).toEqual([0, 200, 200]);
    await turn({ dropBeforeShare: 0, brokenOrderShare: 1 });
    expect(await statuses()).toEqual([200, 200, 503]);
    await turn({ latencyMs: 86_400_000 });
    let end = "none";
    const waiting = list().then(
      () => (end = "an answer"),
      ({ message }: Error) => (end = message),
    );
    expect((await world.ask("GET", "/v1/branches")).status).toBe(200);
    expect(end).toBe("none");
    await world.sandbox.close();
    expect(await waiting).toBe("fetch failed");
  });

  it("get half of the JSON", async () => {
    await turn({ truncateShare: 1 });
    const answer = await list();
    expect(answer.status).toBe(200);
    expect(() => JSON.parse(answer.text)).toThrow(SyntaxError);
  });

  it("lose the connection before or after they take effect", async () => {
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
