import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { meterAnswers, meterDecisions, meterHealth } from "../../../src/health/metering.ts";
import type { Call } from "../../../src/health/calls.sql.ts";
import { readQueueFacts } from "../../../src/mirror/health.ts";
import type { Decision } from "../../../src/apply/applySubjects.ts";
import { makePool, type Pool } from "../../../src/database/database.ts";
import type { OutgoingEndpoint } from "../../../src/health/conditions/endpoints.sql.ts";
import { judge } from "../../../src/health/judge.ts";
import { ago, LOOKED_AT, makeFacts } from "../../support/pages/facts.ts";
import { makeHealthReader } from "../../../src/health/health.ts";
import { makeMetricsRouter } from "../../../src/health/healthRouter.ts";
import { makeApplyQueue } from "../../../src/queue/applyQueue.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { makeMetrics, type Metrics } from "../../../src/process/telemetry/metrics.ts";
import { asPool, openTestDatabase } from "../../support/servers/database.ts";
import { addSource } from "../../support/mirror/orders.ts";
import { serve } from "../../support/http/serve.ts";

const { database } = await openTestDatabase();
let metrics: Metrics;
await addSource(database.pool, "live");
beforeEach(() => {
  metrics = makeMetrics({ version: "1.2.3" });
});

const read = async () => (await metrics.render()).split("\n");
const readerOf = (pool: Pool) => makeHealthReader({ pool, clock: systemClock, sources: [] });
const decision: Decision = {
  sourceId: "live",
  reference: "DO-SECRET",
  via: "webhook",
  verdict: "applied",
  conflict: false,
  reason: null,
  eventId: "evt_secret",
  eventType: "order.picked_up",
  status: "picked_up",
  previousStatus: "created",
  version: systemClock.now() - 3_000_000_000n,
  storedVersion: null,
};

describe("the registry", () => {
  it("counts decisions and their lag, without ids", async () => {
    const forwarded: Decision[] = [];
    const onDecisions = meterDecisions(metrics, systemClock, (all) => forwarded.push(...all));
    onDecisions([decision, { ...decision, verdict: "stale" }, { ...decision, via: "backfill" }]);
    expect(forwarded).toHaveLength(3);
    const lines = await read();
    const applied = 'order_mirror_events_applied_total{source="live",via="webhook",verdict="applied"} 1';
    expect(lines).toContain(applied);
    expect(lines).toContain(applied.replace('"applied"', '"stale"'));
    const lag = lines.filter((line) => line.startsWith("order_mirror_apply_lag_seconds_"));
    expect(lag).toContain('order_mirror_apply_lag_seconds_bucket{source="live",via="webhook",le="2.5"} 0');
    expect(lag).toContain('order_mirror_apply_lag_seconds_bucket{source="live",via="webhook",le="5"} 1');
    expect(lag.some((line) => line.includes("backfill"))).toBe(false);
    expect(lines.join("\n")).not.toMatch(/secret/i);
  });

  it("shows each figure of a source and of an endpoint, with instants instead of ages", async () => {
    const counts = {
      gaps: 1,
      breaches: 2,
      exceptions: 3,
      lostEver: 4,
      pending: 5,
      quarantined: 6,
      refetches: 7,
    };
    const times = {
      polledThrough: ago(8),
      safeThrough: ago(9),
      lastEventAt: ago(10),
      oldestPendingAt: ago(11),
    };
    const endpoint = {
      endpointId: "erp",
      pending: 12,
      dead: 13,
      oldestPendingAt: LOOKED_AT - 14,
      oldestDeadAt: null,
      pausedAt: null,
      unlistedSince: null,
    };
    const facts = makeFacts(
      { ...counts, ...times, lastError: "x", pausedAt: ago(0) },
      { endpoints: [endpoint as OutgoingEndpoint], queues: null },
    );
    meterHealth(metrics, { read: async () => ({ facts, ...judge(facts) }) });
    const lines = (await read()).filter((line) => /"(?:live|erp)"/.test(line));
    const shown = (name: string, value: number, label = 'source="live"') =>
      `order_mirror_${name}{${label}} ${value}`;
    expect(lines.toSorted()).toEqual(
      [
        shown("poll_window_gaps", 1),
        shown("coverage_breaches_total", 2),
        shown("coverage_exceptions", 3),
        shown("lost_events_total", 4),
        shown("pending_events", 5),
        shown("quarantined", 6),
        shown("refetches_waiting", 7),
        shown("poll_watermark_timestamp_seconds", LOOKED_AT - 8),
        shown("safe_through_timestamp_seconds", LOOKED_AT - 9),
        shown("last_event_timestamp_seconds", LOOKED_AT - 10),
        shown("pending_oldest_timestamp_seconds", LOOKED_AT - 11),
        shown("poll_failing", 1),
        shown("outgoing_pending", 12, 'endpoint="erp"'),
        shown("outgoing_dead", 13, 'endpoint="erp"'),
        shown("outgoing_oldest_pending_timestamp_seconds", LOOKED_AT - 14, 'endpoint="erp"'),
        ...judge(facts).holding.map(({ condition: { name, severity, label }, subject }) =>
          shown("condition", 1, `condition="${name}",severity="${severity}",${label}="${subject}"`),
        ),
      ].toSorted(),
    );
  });

  it("queries the database once for concurrent readings, and reports when it is unreachable", async () => {
    const pool = makePool({ url: database.url, purpose: "test", max: 1, statementTimeoutMs: 1_000 });
    let asked = 0;
    const query = pool.query.bind(pool) as (...args: unknown[]) => unknown;
    const counting = asPool({ query: (...args: unknown[]) => ((asked += 1), query(...args)) });
    await readerOf(counting).read();
    const askedOnce = asked;
    meterHealth(metrics, readerOf(counting));
    await Promise.all([read(), read(), read()]);
    expect(asked).toBe(2 * askedOnce);
    await pool.end();
    const away = makeMetrics({ version: "1" });
    meterHealth(away, readerOf(pool));
    const text = await away.render();
    expect(text).toContain("order_mirror_database_up 0");
    expect(text).not.toContain("order_mirror_pending_events{");
  });

  it("shows the queue's jobs", async () => {
    const queue = await makeApplyQueue({
      mirrorId: "test",
      databaseUrl: database.url,
      redisUrls: [],
      logger: silentLogger,
    });
    onTestFinished(() => queue.close());
    await queue.bull.add("apply", { seqs: [1] });
    const readQueues = async () => [await readQueueFacts(queue)];
    meterHealth(
      metrics,
      makeHealthReader({ pool: database.pool, clock: systemClock, sources: [], readQueues }),
    );
    expect(await read()).toContain('order_mirror_queue_jobs{queue="apply",state="waiting"} 1');
  });

  it("counts answers of the provider, also missing ones, without references", async () => {
    const counted: string[] = [];
    const count = ({ kind, outcome }: Call) => void counted.push(`${kind} ${outcome}`);
    const onAnswer = meterAnswers(metrics, count)("live");
    onAnswer({ endpoint: "GET /v1/orders/{reference}", policy: "sustained", status: 200 });
    onAnswer({ endpoint: "GET /v1/orders", policy: "order-list", status: null });
    onAnswer({ endpoint: "GET /v1/orders", policy: "order-list", status: 429 });
    expect(counted).toEqual(["sustained answered", "order-list unanswered", "order-list refused"]);
    expect(await read()).toEqual(
      expect.arrayContaining([
        'order_mirror_provider_requests_total{endpoint="GET /v1/orders/{reference}",code="200"} 1',
        'order_mirror_provider_requests_total{endpoint="GET /v1/orders",code="none"} 1',
      ]),
    );
  });
});

const TOKEN = "a-token-of-a-good-length";
const remote = { "x-forwarded-for": "203.0.113.9" };
const bearer = { authorization: `Bearer ${TOKEN}` };

it.each<[string, { token: string | null; trust?: boolean }, Record<string, string>, number]>([
  ["a local program of a trusted machine", { token: null }, {}, 200],
  ["a local program of another machine", { token: null, trust: false }, {}, 401],
  ["others with the token", { token: TOKEN }, { ...remote, ...bearer }, 200],
  ["others without the token", { token: TOKEN }, remote, 401],
  ["others with a wrong token", { token: TOKEN }, { ...remote, authorization: "Bearer wrong" }, 401],
  ["others when none is configured", { token: null }, { ...remote, ...bearer }, 401],
])("GET /metrics of %s", async (_, { token, trust: localTrust = true }, headers, status) => {
  const deps = { metrics, metricsToken: token, localTrust, logger: silentLogger };
  const server = await serve(makeMetricsRouter(deps));
  onTestFinished(() => server.close());
  const answer = await fetch(`${server.url}/metrics`, { headers });
  const text = await answer.text();
  expect([answer.status, text.includes('order_mirror_build_info{version="1.2.3"} 1')]).toEqual([
    status,
    status === 200,
  ]);
  expect(answer.headers.get("content-type") === "text/plain; version=0.0.4; charset=utf-8").toBe(
    status === 200,
  );
});
