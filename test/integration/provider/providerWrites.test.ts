import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ProviderClient } from "../../../src/provider/client.ts";
import {
  hang,
  hangUp,
  json,
  makeHastyClient,
  NEW_ORDER,
  orderBody,
  refusal,
  startScriptedProvider,
  text,
} from "../../support/providers/scriptedProvider.ts";
import type { ScriptedProvider, Step } from "../../support/providers/scriptedProvider.ts";

let provider: ScriptedProvider;
let client: ProviderClient;

beforeAll(async () => {
  provider = await startScriptedProvider();
  client = makeHastyClient({ baseUrl: provider.url, deadlineMs: 1_000 });
});
afterAll(() => provider.close());

const created = json(201, { ...orderBody(), request_id: "req_new" });
const found = json(200, { ...orderBody(), request_id: "req_found" });
const notFound = refusal(404, "order_not_found");
const duplicate = refusal(409, "duplicate_external_order_id");
const html = text(404, "<html>", { "content-type": "text/html" });

const asked = () => provider.requests.map(({ method, url }) => `${method} ${url}`);
const CREATE = "POST /v1/orders";
const LOOK = "GET /v1/orders/shop-1";

describe("creating with an externalOrderId after an unknown outcome", () => {
  it.each<[string, Step]>([
    ["a timeout", hang],
    ["a broken connection", hangUp],
    ["a 500", text(500, "")],
    ["an unreadable success", text(201, "<html>", { "content-type": "text/html" })],
  ])("returns after %s the order that is there, and creates nothing", async (_, failure) => {
    provider.script(failure, found);
    const answer = await client.createOrder(NEW_ORDER);
    expect(answer).toMatchObject({ requestId: "req_found", snapshot: { fields: { reference: "DO-1" } } });
    expect(asked()).toEqual([CREATE, LOOK]);
  });

  it.each<[string, Step]>([
    ["a timeout", hang],
    ["a broken connection", hangUp],
    ["a 500", text(500, "")],
  ])("creates after %s again when the order is not there", async (_, failure) => {
    provider.script(failure, notFound, created);
    expect((await client.createOrder(NEW_ORDER)).requestId).toBe("req_new");
    expect(asked()).toEqual([CREATE, LOOK, CREATE]);
  });

  it("returns the order of the first attempt when that was slow, not lost", async () => {
    provider.script(hang, notFound, duplicate, found);
    expect((await client.createOrder(NEW_ORDER)).requestId).toBe("req_found");
    expect(asked()).toEqual([CREATE, LOOK, CREATE, LOOK]);
  });

  it("does not create again when an unreadable success left no order", async () => {
    provider.script(text(201, "<html>", { "content-type": "text/html" }), notFound);
    await expect(client.createOrder(NEW_ORDER)).rejects.toMatchObject({ failure: "unreadable" });
    expect(asked()).toEqual([CREATE, LOOK]);
  });

  it("does not mistake an older order with the same id for its own", async () => {
    const old = json(200, { ...orderBody({ updatedAt: "2020-01-01T00:00:00Z" }), request_id: "req_old" });
    provider.script(hang, old, duplicate, old);
    await expect(client.createOrder(NEW_ORDER)).rejects.toMatchObject({
      code: "duplicate_external_order_id",
    });
    expect(asked()).toEqual([CREATE, LOOK, CREATE, LOOK]);
  });

  it("does not mistake an order whose reference is the id for its own", async () => {
    const other = json(200, {
      ...orderBody({ reference: "shop-1", externalOrderId: "other" }),
      request_id: "r",
    });
    provider.script(hang, other, created);
    expect((await client.createOrder(NEW_ORDER)).requestId).toBe("req_new");
  });

  it.each<[string, Step]>([
    ["fails", text(500, "")],
    ["is a 404 that the provider did not write", html],
  ])("creates nothing more when the look itself %s", async (_, failure) => {
    provider.script(hang, failure);
    await expect(client.createOrder(NEW_ORDER)).rejects.toMatchObject({ failure: "timeout", retry: "later" });
    expect(asked().filter((line) => line === CREATE)).toHaveLength(1);
  });

  it("gives up after four attempts", async () => {
    provider.script(
      text(500, ""),
      notFound,
      text(500, ""),
      notFound,
      text(500, ""),
      notFound,
      text(500, ""),
      notFound,
    );
    await expect(client.createOrder(NEW_ORDER)).rejects.toMatchObject({ failure: "unavailable" });
    expect(asked()).toEqual([CREATE, LOOK, CREATE, LOOK, CREATE, LOOK, CREATE, LOOK]);
  });

  it("is cancelled by an abort, without a lookup", async () => {
    const control = new AbortController();
    const reason = new Error("shutting down");
    provider.script(hang);
    const creating = client.createOrder(NEW_ORDER, { signal: control.signal });
    await expect.poll(() => provider.requests.length).toBe(1);
    control.abort(reason);
    await expect(creating).rejects.toBe(reason);
    expect(asked()).toEqual([CREATE]);
  });
});

describe("other creations", () => {
  it.each<[string, object]>([
    ["no externalOrderId", { externalOrderId: undefined }],
    ["an empty one", { externalOrderId: "" }],
  ])("is sent once with %s, whatever becomes of it", async (_, fields) => {
    provider.script(text(500, ""), created);
    await expect(client.createOrder({ ...NEW_ORDER, ...fields })).rejects.toMatchObject({
      failure: "unavailable",
    });
    expect(asked()).toEqual([CREATE]);
  });

  it("reports a used id when the first answer says so", async () => {
    provider.script(duplicate, found);
    await expect(client.createOrder(NEW_ORDER)).rejects.toMatchObject({
      code: "duplicate_external_order_id",
    });
    expect(asked()).toEqual([CREATE]);
  });

  it.each([
    [402, "subscription_inactive"],
    [422, "branch_not_connected"],
    [422, "address_ambiguous"],
    [422, "no_shift_coverage"],
  ])("is not repeated after %i %s", async (status, code) => {
    provider.script(refusal(status, code));
    await expect(client.createOrder(NEW_ORDER)).rejects.toMatchObject({ status, code, retry: "never" });
    expect(asked()).toEqual([CREATE]);
  });
});

describe("cancelling after an unknown outcome", () => {
  const CANCEL = "POST /v1/orders/DO-1/cancel";
  const READ = "GET /v1/orders/DO-1";
  const cancelled = json(200, { ...orderBody({ status: "cancelled" }), request_id: "req_cancelled" });
  const tooLate = refusal(422, "order_not_cancellable");

  it("returns the order when it is already cancelled", async () => {
    provider.script(hang, cancelled);
    const { snapshot } = await client.cancelOrder("DO-1");
    expect(snapshot.fields.status).toBe("cancelled");
    expect(asked()).toEqual([CANCEL, READ]);
  });

  it("cancels again when it is not cancelled", async () => {
    provider.script(hangUp, found, cancelled);
    await client.cancelOrder("DO-1");
    expect(asked()).toEqual([CANCEL, READ, CANCEL]);
  });

  it("returns the order when the first attempt was slow", async () => {
    provider.script(hang, found, tooLate, cancelled);
    expect((await client.cancelOrder("DO-1")).requestId).toBe("req_cancelled");
    expect(asked()).toEqual([CANCEL, READ, CANCEL, READ]);
  });

  it("reports the refusal when the order has progressed meanwhile", async () => {
    const pickedUp = json(200, { ...orderBody({ status: "picked_up" }), request_id: "r" });
    provider.script(hang, found, tooLate, pickedUp);
    await expect(client.cancelOrder("DO-1")).rejects.toMatchObject({ code: "order_not_cancellable" });
  });

  it("reports a refusal of the first attempt immediately", async () => {
    provider.script(tooLate);
    await expect(client.cancelOrder("DO-1")).rejects.toMatchObject({ code: "order_not_cancellable" });
    expect(asked()).toEqual([CANCEL]);
  });

  it("reports that the outcome is unknown when the order cannot be read", async () => {
    provider.script(hang, html);
    await expect(client.cancelOrder("DO-1")).rejects.toMatchObject({ failure: "timeout" });
    expect(asked()).toEqual([CANCEL, READ]);
  });
});
