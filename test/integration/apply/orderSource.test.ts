import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { makeApply } from "../../../src/apply/apply.ts";
import type { Apply } from "../../../src/apply/apply.ts";
import { makePool } from "../../../src/database/database.ts";
import type { Pool } from "../../../src/database/database.ts";
import { addSeconds, formatInstant } from "../../../src/domain/order/instant.ts";
import { failureOf } from "../../../src/domain/source/errors.ts";
import type { EventReader, OrderSource } from "../../../src/domain/source/orderSource.ts";
import { makePoller } from "../../../src/poll/leader/poller.ts";
import type { Poller } from "../../../src/poll/leader/poller.ts";
import { makeProviderClient } from "../../../src/provider/client.ts";
import { makeBudget } from "../../../src/provider/budget.ts";
import { chooseEventId } from "../../../src/receive/admit.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { deliveryEvents } from "../../../src/wire/events.ts";
import { makeCursorSource, parcelEvents } from "../../support/providers/cursorSource.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";
import { addSource, putIntoInbox } from "../../support/mirror/orders.ts";
import { LIVE, makeTestSandbox } from "../../support/providers/testSandbox.ts";

/** A source with some orders, and what a test can do on the provider's side. */
interface Subject {
  readonly source: OrderSource;
  readonly events: EventReader;
  /** Changes any one of its orders and returns the reference. */
  change(): Promise<string>;
  /** The body of an event about the order's current state. */
  eventOf(reference: string): Promise<Buffer>;
  close(): Promise<void>;
}

const ORDERS = 8;
const WAIT = { timeout: 60_000, interval: 50 };

/** The Delivery Ordering Service: the HTTP client with the sandbox. */
async function startFirst(): Promise<Subject> {
  const world = await makeTestSandbox();
  const since = formatInstant(addSeconds(systemClock.now(), -1_800));
  await world.steer("POST", "/seed", { orders: ORDERS, since });
  const source = makeProviderClient({
    baseUrl: world.url,
    apiKey: LIVE,
    budget: makeBudget({ clock: systemClock }),
    clock: systemClock,
    logger: silentLogger,
  });
  const { json } = await world.ask("GET", "/v1/orders?status=created&limit=1");
  const { reference } = json.data[0] as { reference: string };
  return {
    source,
    events: deliveryEvents,
    async change() {
      await source.cancelOrder(reference);
      return reference;
    },
    async eventOf(wanted) {
      const { snapshot } = await source.getOrder(wanted);
      const created = formatInstant(systemClock.now());
      const envelope = { id: "evt-1", type: "order.changed", created, livemode: true };
      return Buffer.from(`${JSON.stringify(envelope).slice(0, -1)},"data":${snapshot.raw}}`);
    },
    close: () => world.close(),
  };
}

/** Another provider, with different fields, times and events, and cursor paging. */
async function startSecond(): Promise<Subject> {
  const source = makeCursorSource(systemClock.now);
  for (let parcel = 0; parcel < ORDERS; parcel += 1) source.put(`P-${parcel}`, "created");
  return {
    source,
    events: parcelEvents,
    async change() {
      source.put("P-3", "handed over");
      return "P-3";
    },
    eventOf: async (reference) => source.eventOf(reference),
    close: async () => undefined,
  };
}

describe.each([
  ["the Delivery Ordering Service", startFirst],
  ["a source that pages by cursor", startSecond],
] as const)("%s", (_name, start) => {
  let database: TestDatabase;
  let pool: Pool;
  let subject: Subject;
  let apply: Apply;
  let poller: Poller;

  beforeAll(async () => {
    database = await makeTestDatabase();
    pool = makePool({ url: database.url, purpose: "poll", max: 4, statementTimeoutMs: 10_000 });
    await addSource(pool, "live");
    subject = await start();
    const { source: client, events } = subject;
    apply = makeApply({ pool, events, logger: silentLogger, modes: new Map([["live", "live"]]) });
    poller = makePoller({
      source: { sourceId: "live" },
      client,
      pool,
      apply,
      clock: systemClock,
      logger: silentLogger,
      intervalSeconds: 0.1,
      marginSeconds: 2,
      backfillSince: "PT1H",
      pace: "cycle",
      holder: "test",
      rateWindowMs: 0,
    });
    poller.start();
  });
  afterAll(async () => {
    await poller.close();
    await subject.close();
    await pool.end();
    await database.drop();
  });

  const read = async () =>
    (
      await pool.query<{ reference: string; hash: string; version: string }>(
        "select reference, encode(hash, 'hex') as hash, version from mirror.orders order by reference",
      )
    ).rows;

  /** Reads all orders in one window through the source's own pages, of any size. */
  async function listAll() {
    const { source } = subject;
    const now = source.providerClock.providerNow();
    const window = { since: addSeconds(now, -3_600), until: addSeconds(now, 60) };
    const rows = new Map<string, { reference: string; hash: string; version: string }>();
    for (let offset = 0; ;) {
      const page = await source.listWindow({ ...window, offset, limit: source.promises.pageRowsMax });
      expect(page.elements.length).toBeLessThanOrEqual(page.limit);
      for (const element of page.elements) {
        if (element.kind !== "order") throw new TypeError("every order is readable");
        const { fields, hash, version } = element.snapshot;
        rows.set(fields.reference, { reference: fields.reference, hash, version: String(version) });
      }
      if (!page.hasMore) break;
      offset += page.elements.length;
    }
    return [...rows.values()].toSorted((left, right) => (left.reference < right.reference ? -1 : 1));
  }

  it("is mirrored completely, with a proof", async () => {
    await vi.waitUntil(async () => (await read()).length >= ORDERS, WAIT);
    expect(await read()).toEqual(await listAll());
    await vi.waitUntil(
      async () =>
        (await pool.query("select from mirror.poll_state where safe_through > history_since")).rowCount === 1,
      WAIT,
    );
  });

  it("shows single orders as in its lists and reports a missing one as not_found", async () => {
    const [listed] = await listAll();
    const { snapshot, requestedAt } = await subject.source.getOrder(listed!.reference);
    expect({ hash: snapshot.hash, version: String(snapshot.version) }).toEqual({
      hash: listed!.hash,
      version: listed!.version,
    });
    expect(requestedAt).toBeLessThanOrEqual(systemClock.now());
    const error: unknown = await subject.source.getOrder("no-such-order").catch((reason: unknown) => reason);
    expect(failureOf(error)).toBe("not_found");
  });

  it("is followed by polling and by events", async () => {
    const reference = await subject.change();
    const body = await subject.eventOf(reference);
    const bodyHash = createHash("sha256").update(body).digest();
    const eventId = chooseEventId({ bodyId: subject.events.readEventId(body), bodyHash, headerId: null });
    expect(eventId).toBe("evt-1");
    const seqs = await putIntoInbox(pool, [{ eventId, body }]);
    expect(await apply.applyEvents(seqs)).toMatchObject([
      { reference, via: "webhook", verdict: expect.stringMatching(/^(applied|duplicate)$/) },
    ]);
    await vi.waitUntil(async () => JSON.stringify(await read()) === JSON.stringify(await listAll()), WAIT);
  });

  it("has unreadable events quarantined and events about no order ignored", async () => {
    const bodies = ["no json", JSON.stringify({ event: "e", what: "ping", type: "ping", data: {} })];
    const seqs = await putIntoInbox(
      pool,
      bodies.map((text, index) => ({ eventId: `odd-${index}`, body: Buffer.from(text) })),
    );
    const decisions = await apply.applyEvents(seqs);
    expect(decisions.map(({ verdict }) => verdict)).toEqual(["quarantined", "ignored"]);
  });
});
