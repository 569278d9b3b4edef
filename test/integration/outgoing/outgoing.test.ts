import { Webhook } from "standardwebhooks";
import { describe, expect, it, vi } from "vitest";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { readOutgoingEndpoints } from "../../../src/health/conditions/endpoints.sql.ts";
import { planDeliveries, takeDue } from "../../../src/outgoing/outgoingDeliveries.sql.ts";
import { planTest, sendNow, setEndpointPaused } from "../../../src/outgoing/outgoingEndpoints.sql.ts";
import { UNDER_WAY_MAX } from "../../../src/outgoing/outgoing.ts";
import { missAgain } from "../../support/mirror/liveApply.ts";
import { at } from "../../support/mirror/orders.ts";
import { WEBHOOK_SECRET } from "../../support/signing/signing.ts";
import {
  accept,
  openSending,
  references,
  refuse,
  WAIT,
  type Answer,
} from "../../support/outgoing/sending.ts";

const { pool, see, change, list, open, states, settled, deliveredAll } = await openSending();

const ANY = { definition: "", rate: null, ordered: false };

describe("outgoing webhooks", () => {
  it("notify an endpoint once of every change after it was configured, signed as Standard Webhooks", async () => {
    await see({ reference: "OLD", updatedAt: at(1) });
    const endpoint = await open({ processes: 2 });
    await see({ reference: "A", updatedAt: at(1) });
    await see(
      { reference: "A", updatedAt: at(2), status: "picked_up" },
      { reference: "B", updatedAt: at(2) },
    );
    await see({ reference: "A", updatedAt: at(3), status: "picked_up", more: { note: "x" } });
    const [horizon, requestedAt] = [parseInstant(at(900)), parseInstant(at(900))];
    await missAgain(pool, { sourceId: "live", reference: "B", horizon, requestedAt });
    await settled(...Array.from({ length: 5 }, () => "delivered 1 status 204"));
    const told = endpoint.received.map(({ text, change: name }) => {
      const { type, data } = JSON.parse(text) as {
        type: string;
        data: Record<"before" | "after", { status: string } | null>;
      };
      return [name, [type, data.before?.status, data.after?.status]];
    });
    expect(Object.fromEntries(told)).toEqual({
      A1: ["order.new", undefined, "created"],
      A2: ["order.status_changed", "created", "picked_up"],
      A3: ["order.changed", "picked_up", "picked_up"],
      B1: ["order.new", undefined, "created"],
      B2: ["order.gone", "created", undefined],
    });
    for (const { headers, text } of endpoint.received)
      expect(new Webhook(WEBHOOK_SECRET).verify(text, headers as Record<string, string>)).toBeDefined();
    expect(new Set(endpoint.received.map(({ headers }) => headers["webhook-id"])).size).toBe(5);
  });

  it("are retried under the same id until delivered; given up after the last attempt or 410; sent again by hand", async () => {
    const endpoint = await open({ answer: refuse(500, 404) });
    await see({ reference: "A", updatedAt: at(1) });
    await settled("delivered 3 status 200");
    expect(new Set(endpoint.received.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
    const failing = await open({ answer: refuse(500, 501, 502, 503, 410) });
    await see({ reference: "B", updatedAt: at(1) });
    await vi.waitFor(async () => expect(await states()).toContain("dead 4 status 503"), WAIT);
    expect(failing.received).toHaveLength(4);
    expect(await sendNow(pool, failing.endpointId, "dead")).toBe(1);
    await vi.waitFor(async () => expect(await states()).toContain("dead 1 status 410"), WAIT);
    expect(await sendNow(pool, failing.endpointId, "dead")).toBe(1);
    await deliveredAll(2);
  });

  it("are sent again when the process that took them is gone", async () => {
    await list("erp-lost");
    await change(["A", "B", "C"]);
    await planDeliveries(pool, { endpointId: "erp-lost", definition: "", types: null, statuses: null }, 10);
    expect(await takeDue(pool, { ...ANY, endpointId: "erp-lost" }, 2)).toHaveLength(2);
    const endpoint = await open({ wanted: { endpointId: "erp-lost" } });
    await deliveredAll(1);
    expect(endpoint.received).toHaveLength(1);
    await pool.query("update mirror.outgoing_deliveries set taken_until = taken_until - interval '1 minute'");
    await deliveredAll(3);
    expect(endpoint.seen().toSorted()).toEqual(["A1", "B1", "C1"]);
  });

  it("a failure of our own database uses no attempt", async () => {
    let fail = true;
    const endpoint = await open({
      answer: (response) => {
        if (!fail) return void response.writeHead(204).end();
        fail = false;
        // The end of this attempt cannot be recorded.
        void pool
          .query("alter table mirror.outgoing_deliveries rename to away")
          .then(() => response.writeHead(204).end());
      },
    });
    await change(["A"]);
    await vi.waitFor(() => expect(endpoint.warnings.join("")).toContain("was not recorded"), WAIT);
    await pool.query("alter table mirror.away rename to outgoing_deliveries");
    expect(await states()).toEqual(["pending 0 null"]);
    await pool.query("update mirror.outgoing_deliveries set taken_until = now()");
    await settled("delivered 1 status 204");
  });

  it("wait for no other endpoint, and have a limited number under way with two processes", async () => {
    const hanging = await open({ answer: () => undefined, timeoutMs: 300_000, processes: 2 });
    const quick = await open({ lookEveryMs: null });
    await change(references(30));
    quick.wake();
    await deliveredAll(30);
    await vi.waitFor(() => expect(hanging.received).toHaveLength(UNDER_WAY_MAX), WAIT);
    // Each of these is under way for minutes, and another look takes no more.
    hanging.wake();
    expect(await takeDue(pool, { ...ANY, endpointId: hanging.endpointId }, UNDER_WAY_MAX)).toEqual([]);
    expect(hanging.received).toHaveLength(UNDER_WAY_MAX);
  });

  it("keep to the rate of an endpoint with two processes, evenly", async () => {
    const times: number[] = [];
    const answer: Answer = (response) => {
      times.push(performance.now());
      accept(response, { reference: "", revision: 0 });
    };
    const endpoint = await open({ answer, rate: 5, processes: 2, lookEveryMs: null });
    const startedMs = performance.now();
    await change(references(11));
    endpoint.wake();
    await deliveredAll(11);
    // Counted from the start: a busy machine can only delay what comes.
    for (const [index, time] of times.entries()) expect(time - startedMs).toBeGreaterThan(200 * (index - 1));
  });

  it("that wait for their next attempt are sent now on request, and when a person ends a pause", async () => {
    const headers = [{ "retry-after": "3600" }, { "retry-after": "7200" }];
    const answer: Answer = (response) => {
      const asks = headers.shift();
      response.writeHead(asks ? 503 : 200, asks ?? {}).end();
    };
    const endpoint = await open({ answer, retrySeconds: [600, 600] });
    const { endpointId } = endpoint;
    const shown = async () => (await readOutgoingEndpoints(pool))[0]!;
    await change(["A"]);
    await settled("pending 1 status 503");
    expect((await shown()).nextAttemptAt! - Date.now() / 1_000).toBeGreaterThan(3_500);
    expect(await sendNow(pool, endpointId, "pending")).toBe(1);
    await settled("pending 2 status 503");
    const pause = (paused: boolean) => setEndpointPaused(pool, { endpointId, paused });
    expect([await pause(true), await pause(true)]).toEqual([true, false]);
    await change(["B"]);
    await settled("pending 2 status 503", "pending 0 null");
    expect((await shown()).pausedAt).not.toBeNull();
    expect(endpoint.received).toHaveLength(2);
    expect(await pause(false)).toBe(true);
    await settled("delivered 3 status 200", "delivered 1 status 200");
    const { rows } = await pool.query(
      "select last_attempts as attempts from mirror.outgoing_deliveries where reference = 'A'",
    );
    const attempt = { at: expect.any(Number) as number, ms: expect.any(Number) as number };
    const attempts = [200, 503, 503].map((status) => ({ ...attempt, outcome: `status ${status}` }));
    expect(rows).toEqual([{ attempts }]);
  });

  it("a test is sent once, and its failure is neither repeated nor given up", async () => {
    const { endpointId, received } = await open({ answer: refuse(500, 500), ordered: true });
    expect(await planTest(pool, "none")).toBe(false);
    for (const count of [1, 2]) {
      // Also when a person has asked for it several times meanwhile.
      await setEndpointPaused(pool, { endpointId, paused: true });
      for (const _thrice of [1, 2, 3]) expect(await planTest(pool, endpointId)).toBe(true);
      await setEndpointPaused(pool, { endpointId, paused: false });
      await settled("dead 1 status 500");
      expect(received).toHaveLength(count);
    }
    const timestamp = expect.stringMatching(/Z$/) as string;
    expect(JSON.parse(received[0]!.text)).toEqual({ type: "test", timestamp, source: "live", data: {} });
    expect(await readOutgoingEndpoints(pool)).toMatchObject([{ dead: 0, pending: 0, oldestDeadAt: null }]);
    expect(await sendNow(pool, endpointId, "dead")).toBe(0);
  });

  it("gets the changes of each order one after the other, with failures and two processes", async () => {
    let count = 0;
    const accepted: string[] = [];
    const endpoint = await open({
      processes: 2,
      ordered: true,
      answer: (response, { reference, revision }) => {
        const fails = (count += 1) % 4 === 0;
        if (!fails) accepted.push(`${reference}${revision}`);
        setTimeout(() => response.writeHead(fails ? 500 : 204).end(), Math.random() * 10);
      },
    });
    await change(references(4), ["created", "assigned", "picked_up"]);
    await deliveredAll(12);
    for (const reference of references(4)) {
      const own = (all: readonly string[]) => all.filter((each) => each.startsWith(reference));
      expect(own(accepted)).toEqual([1, 2, 3].map((revision) => `${reference}${revision}`));
      // A retried change is not overtaken, either.
      expect(own(endpoint.seen())).toEqual(own(endpoint.seen()).toSorted());
    }
  });
});

describe("an attempt", () => {
  it("is recorded with its outcome, duration and the first characters of the answer", async () => {
    const answers: Answer[] = [
      (response) => void response.destroy(),
      (response) => void response.writeHead(307, { location: "/elsewhere" }).end(),
      (response, { reference }) =>
        void response
          .writeHead(200)
          .write(`<b>no</b>\u001b[31m ${reference}\nkey whsec_MfKQ9r8GKYqrTwjU ${"x".repeat(999)}`),
    ];
    await open({ answer: (response, data) => answers.shift()!(response, data) });
    await see({
      reference: "A",
      updatedAt: at(1),
      more: { customer: { name: "Jansen", phone: "+31612345678" } },
    });
    await settled("delivered 3 status 200");
    const { rows } = await pool.query<{ answer: string; attempts: { outcome: string; ms: number }[] }>(
      "select answer, last_attempts as attempts from mirror.outgoing_deliveries",
    );
    const { answer, attempts } = rows[0]!;
    const outcomes = attempts.map(({ outcome }) => outcome);
    expect(outcomes).toEqual(["status 200", "status 307", "UND_ERR_SOCKET"]);
    expect(answer).toMatch(/^<b>no<\/b> \[31m A key \[…\] x{100,}$/);
    // To the head: the rest of the answer never comes.
    expect(attempts[0]!.ms).toBeLessThan(1_000);
  });

  it("fails when no answer comes in time", async () => {
    const { seen } = await open({ timeoutMs: 300, answer: () => undefined, retrySeconds: [600] });
    await change(["A"]);
    await settled("pending 1 TimeoutError");
    expect(seen()).toEqual(["A1"]);
  });

  it("keeps no answer that names the person, although the message did not", async () => {
    await open({
      fields: "redacted",
      answer: (response) => void response.writeHead(410).end("unknown customer Jansen"),
    });
    await see({ reference: "A", updatedAt: at(1), more: { customer: { name: "Jansen" } } });
    await settled("dead 1 status 410");
    const { rows } = await pool.query("select d::text as row from mirror.outgoing_deliveries d");
    expect(rows).toEqual([{ row: expect.stringMatching(/^(?!.*Jansen).*not shown/) }]);
  });
});
