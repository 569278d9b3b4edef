import { beforeEach, describe, expect, it } from "vitest";
import { readFeedFence } from "../../../src/changes/changeFeed.sql.ts";
import { makeDeliver } from "../../../src/outgoing/outgoingDelivery.ts";
import {
  planDeliveries,
  readToEnqueue,
  recordSubscriptions,
  replayFrom,
  setEndpointPaused,
} from "../../../src/outgoing/outgoingPlan.sql.ts";
import { readOutgoingEndpoints } from "../../../src/health/endpoints.sql.ts";
import { makeRemoveChanges } from "../../../src/retention/retention.sql.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { addSource, at, makeSnapshot, readAt } from "../../support/mirror/orders.ts";
import { removeOlder } from "../../support/mirror/retention.ts";
import { emptying } from "../../support/mirror/emptying.ts";

const ERP = { endpointId: "erp", sourceId: "live", types: ["order.new" as const], statuses: ["created"] };
const WAIT_DAYS = 7;
const KEPT_DAYS = 30;

const { pool } = await openTestDatabase();

await addSource(pool, "live");
beforeEach(async () => {
  await pool.query(
    emptying(
      "outgoing_deliveries outgoing_cursors outgoing_endpoints orders history changes feed_removals retention_walks",
    ),
  );
  await recordSubscriptions(pool, [ERP]);
});

async function see(...references: string[]): Promise<void> {
  const apply = makeLiveApply(pool);
  for (const reference of references) {
    const snapshots = [makeSnapshot({ reference, updatedAt: at(1) })];
    await apply.applyReads({ sourceId: "live", via: "poll", snapshots, time: readAt(0n, 0) });
  }
}
const ageBy = (days: number) =>
  pool.query("update mirror.changes set changed_at = changed_at - make_interval(days => $1)", [days]);
const remove = async (waitDays = WAIT_DAYS) =>
  (await removeOlder(pool, [makeRemoveChanges(waitDays * 86_400)], { keptDays: KEPT_DAYS })).removed;

interface Sent {
  readonly id: string;
  readonly type: string;
  readonly source: string;
  readonly data: { readonly reference?: string; readonly after?: string; readonly through?: string };
}
/** Plans deliveries and makes them, as an endpoint's queue does; returns what the endpoint received. */
async function tell(endpointId = "erp"): Promise<Sent[]> {
  const sent: Sent[] = [];
  const send = ({ id, body }: { id: string; body: Buffer }) => {
    sent.push({ id, ...(JSON.parse(body.toString()) as Omit<Sent, "id">) });
    const beginning = Buffer.from("");
    const answer = { kind: "answered", status: 200, retryAfterMs: null, durationMs: 1, beginning } as const;
    return Promise.resolve(answer);
  };
  const endpoint = { endpointId, send, fields: "all", ordered: false } as const;
  const deliver = makeDeliver({ pool, endpoint, logger: silentLogger });
  await planDeliveries(pool, { ...ERP, endpointId }, 100);
  for (const enqueued of await readToEnqueue(pool, endpointId, 100))
    await deliver(enqueued, { number: 1, isLast: false });
  return sent;
}

describe("changes that an endpoint was not notified of", () => {
  it("are kept for additional days, and removed once it was notified", async () => {
    await see("A", "B", "C");
    await ageBy(KEPT_DAYS + 1);
    expect(await remove()).toBe(0);
    expect(await planDeliveries(pool, ERP, 1)).toMatchObject({ planned: 1 });
    expect(await remove()).toBe(0);
    await pool.query("update mirror.outgoing_deliveries set state = 'delivered', delivered_at = now()");
    expect(await remove()).toBe(1);
    expect((await tell()).map(({ data }) => data.reference)).toEqual(["B", "C"]);
    expect(await remove()).toBe(2);
    expect(await tell()).toEqual([]);
  });

  it("are kept as well while a person pauses the endpoint", async () => {
    await pool.query("update mirror.outgoing_endpoints set paused_at = now()");
    await see("A", "B");
    await ageBy(KEPT_DAYS + 1);
    expect(await tell()).toEqual([]);
    expect(await remove()).toBe(0);
    expect(await setEndpointPaused(pool, { endpointId: "erp", paused: false })).toBe(true);
    expect((await tell()).map(({ data }) => data.reference)).toEqual(["A", "B"]);
    expect(await remove()).toBe(2);
  });

  it("are reported in one message when they are removed after that, and later ones are sent as usual", async () => {
    await see("A");
    const [first] = await tell();
    expect(first?.data.reference).toBe("A");
    await see("B", "C");
    await ageBy(KEPT_DAYS + WAIT_DAYS + 1);
    const through = await readFeedFence(pool);
    await see("D");
    expect(await remove()).toBe(3);
    const sent = await tell();
    expect(sent).toHaveLength(2);
    const missed = sent.find(({ type }) => type === "changes.missed");
    expect(missed).toMatchObject({
      id: expect.stringMatching(/^msg_[0-9a-f]{32}$/) as unknown,
      source: "live",
    });
    expect(missed?.data.through).toMatch(new RegExp(`^[0-9a-f]{12}\\.${through}$`));
    expect(missed?.data.after).toMatch(/^[0-9a-f]{12}\.\d+$/);
    expect(sent.find(({ type }) => type === "order.new")?.data.reference).toBe("D");
    expect(await tell()).toEqual([]);
    const [endpoint] = await readOutgoingEndpoints(pool);
    expect(endpoint?.newestMissedAt).toBeGreaterThan(0);
  });

  it("are reported again on a replay, but not to a new endpoint", async () => {
    await see("A");
    await ageBy(KEPT_DAYS + WAIT_DAYS + 1);
    expect(await remove()).toBe(1);
    expect(await tell()).toMatchObject([{ type: "changes.missed" }]);
    expect(await tell()).toEqual([]);
    await see("B");
    expect(await tell()).toMatchObject([{ data: { reference: "B" } }]);
    await replayFrom(pool, { endpointId: "erp", sourceId: "live", from: 0n });
    expect((await tell()).map(({ type }) => type).sort()).toEqual(["changes.missed", "order.new"]);
    await pool.query(emptying("changes"));
    await recordSubscriptions(pool, [{ ...ERP, endpointId: "bi" }]);
    expect(await tell("bi")).toEqual([]);
  });
});
