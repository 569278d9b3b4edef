import { afterAll, afterEach, describe, expect, it } from "vitest";
import { NO_FAULTS, type FaultsPatch } from "../../../src/sandbox/control/faults.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";
import {
  makeTestSandbox,
  orderBody,
  receiveEvents,
  SANDBOX_SECRET,
} from "../../support/providers/testSandbox.ts";

const live = await receiveEvents(afterAll);
const webhooks = { live: { url: live.url, secret: SANDBOX_SECRET } };
const world = await makeTestSandbox({ clock: "virtual", webhooks });
afterAll(() => world.close());
afterEach(() => {
  world.sandbox.setFaults(NO_FAULTS);
  live.received.splice(0);
});

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

// First, while there are few orders that the fleet could move.
describe("late commits", () => {
  it("show a change only some time after its updatedAt, while its event is on time", async () => {
    const [reference = ""] = await makeOrders(1);
    await turn({ lateCommitShare: 1, lateCommitMs: 8_000 });
    await world.sandbox.advance(60_000);
    await stepAll([reference]);
    await world.sandbox.idle();
    const { event } = live.received[0]!;
    const { status, updatedAt } = event.data;
    expect([status, updatedAt]).toEqual(["arrived_for_pickup", event.created]);
    const shown = async () =>
      (await list("&status=arrived_for_pickup")).json.data.filter(
        (order: { reference: string }) => order.reference === reference,
      );
    await world.sandbox.advance(7_000);
    expect((await get(reference)).status).toBe("created");
    expect(await shown()).toEqual([]);
    await world.sandbox.advance(1_001);
    expect(await get(reference)).toMatchObject({ status, updatedAt });
    expect(await shown()).toHaveLength(1);
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
    await world.steer("POST", "/dials", { speed: 0 });
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

describe("events", () => {
  it("a share of them is lost", async () => {
    await turn({ loseShare: 0.3 });
    await stepAll(await makeOrders(40));
    await world.sandbox.idle();
    expect(live.received.length).toEqual(isBetween(20, 37));
    const events = (await world.steer("GET", "/events?limit=40")) as { sentAs: string }[];
    expect(events.filter(({ sentAs }) => sentAs === "lost")).toHaveLength(40 - live.received.length);
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

it("updatedAt never decreases, even if the provider's clock is set back", async () => {
  const [reference = ""] = await makeOrders(1);
  const { updatedAt } = await get(reference);
  await turn({ clockSkewMs: -60_000 });
  await stepAll([reference]);
  expect(await get(reference)).toMatchObject({ status: "arrived_for_pickup", updatedAt });
});

describe("lists", () => {
  /** Those of `made` that a list has, in its sequence. */
  const listed = async (made: readonly string[], query = "") =>
    ((await list(query)).json.data as { reference: string }[])
      .map(({ reference }) => reference)
      .filter((reference) => made.includes(reference));

  it("come in descending order or unsorted", async () => {
    const made = await makeOrders(20);
    expect(await listed(made)).toEqual(made);
    await turn({ listOrder: "descending" });
    expect(await listed(made)).toEqual(made.toReversed());
    await turn({ listOrder: "unsorted" });
    const unsorted = await listed(made);
    expect(unsorted.toSorted()).toEqual(made.toSorted());
    expect(unsorted).not.toEqual(made);
    expect(await listed(made)).toEqual(unsorted);
  });

  it("break ties at random, and only ties", async () => {
    await turn({ timestampGranularity: "s" });
    const early = await makeOrders(15);
    await world.sandbox.advance(5_000);
    const late = await makeOrders(15);
    await turn({ listTies: "random" });
    const made = [...early, ...late];
    const pages = [await listed(made), await listed(made)];
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
    expect(await listed(made, period)).toEqual([made[1], made[2]]);
    await turn({ listBounds: "inclusive" });
    expect(await listed(made, period)).toEqual([made[1], made[2], made[3]]);
    await turn({ listBounds: "exclusive" });
    expect(await listed(made, period)).toEqual([made[2]]);
  });
});

describe("requests", () => {
  it("get 5xx during a storm, in the configured share", async () => {
    await turn({ failShare: 0.5, failStatus: 502 });
    const answers = await Promise.all(Array.from({ length: 30 }, () => list()));
    const failed = answers.filter(({ status }) => status === 502);
    expect(failed.length).toEqual(isBetween(5, 25));
    expect(failed[0]!.headers.has("ratelimit-policy")).toBe(true);
  });

  it("get half of the JSON", async () => {
    await turn({ truncateShare: 1 });
    const answer = await list();
    expect(answer.status).toBe(200);
    expect(() => JSON.parse(answer.text)).toThrow(SyntaxError);
  });

  it("lose the connection before or after they take effect", async () => {
    await turn({ dropBeforeShare: 1 });
    const create = (externalOrderId: string) =>
      expect(world.ask("POST", "/v1/orders", { body: orderBody({ externalOrderId }) })).rejects.toThrow(
        "fetch failed",
      );
    await create("before");
    await turn({ dropBeforeShare: 0, dropAfterShare: 1 });
    await create("after");
    await turn({ dropAfterShare: 0 });
    const statuses = ["before", "after"].map(async (name) => (await get(name)).status);
    expect(await Promise.all(statuses)).toEqual([undefined, "created"]);
    expect((await world.steer("GET", "/state")).requests).toMatchObject({ "createOrder 0": 2 });
  });

  // The last, because it ends the sandbox.
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
});
