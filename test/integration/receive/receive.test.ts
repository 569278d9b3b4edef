import { createHash } from "node:crypto";
import express from "express";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { makeSigner } from "../../../src/signature/sign.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { makeHead, openRaw, sendRaw } from "../../support/http/rawHttp.ts";
import {
  LIVE_SECRETS,
  makeBody,
  MOUNTS,
  post,
  signHeaders,
  startReceiving,
  TEST_SECRET,
} from "../../support/signing/receiving.ts";
import type { Receiving } from "../../support/signing/receiving.ts";
import { emptying } from "../../support/mirror/emptying.ts";

const MEBIBYTE = 1_048_576;

const { database } = await openTestDatabase();
beforeEach(() => database.pool.query(emptying("inbox pending")));

interface InboxRow {
  readonly seq: string;
  readonly source_id: string;
  readonly event_id: string;
  readonly body: Buffer;
  readonly body_hash: Buffer;
  readonly secret_index: number;
}

async function readInbox(): Promise<InboxRow[]> {
  const { rows } = await database.pool.query<InboxRow>("select * from mirror.inbox order by seq");
  return rows;
}

/** Head and body of a signed request, for raw connections; `more` headers come last. */
function signed(body: Buffer, ...more: [string, string | number][]): [string, Buffer] {
  const headers: [string, string | number][] = [
    ["Content-Type", "application/json"],
    ["Content-Length", body.length],
    ...Object.entries(signHeaders(body)),
    ...more,
  ];
  return [makeHead("POST /webhooks/live", headers), body];
}

function paddedTo(bytes: number): Buffer {
  const bare = makeBody("evt_big").length;
  return makeBody("evt_big", "x".repeat(bytes - bare));
}

describe.each(MOUNTS)("the webhook endpoint, called %s", (mount) => {
  let receiving: Receiving;
  beforeEach(async () => {
    receiving = await startReceiving({ url: database.url, mount });
  });
  afterEach(() => receiving.close());

  describe("accepts", () => {
    it("a signed event: commits it byte for byte, answers 200 and notifies a worker", async () => {
      const body = Buffer.from('{ "id":"evt_1",\n "type" : "order.picked_up", "ü":1.50 }');
      const answer = await post(receiving.port, body);
      expect(answer.status).toBe(200);
      expect(answer.headers.get("content-length")).toBe("0");
      const [row] = await readInbox();
      expect(row).toMatchObject({ source_id: "live", event_id: "evt_1", secret_index: 0 });
      expect(row?.body.equals(body)).toBe(true);
      expect(row?.body_hash.equals(createHash("sha256").update(body).digest())).toBe(true);
      const { rows: pending } = await database.pool.query("select seq, source_id from mirror.pending");
      expect(pending).toEqual([{ seq: row?.seq, source_id: "live" }]);
      expect(receiving.notified).toEqual([Number(row?.seq)]);
    });

    it("the same event again with 200, without a second row or notification", async () => {
      const body = makeBody("evt_1");
      for (let time = 1; time <= 3; time += 1) expect((await post(receiving.port, body)).status).toBe(200);
      expect(await readInbox()).toHaveLength(1);
      expect(receiving.notified).toHaveLength(1);
      expect(receiving.counts).toMatchObject({ received: 1, duplicate: 2 });
    });

    it("twenty deliveries of one event at once, as one row", async () => {
      const body = makeBody("evt_1");
      const answers = await Promise.all(Array.from({ length: 20 }, () => post(receiving.port, body)));
      expect(answers.map((answer) => answer.status)).toEqual(Array(20).fill(200));
      expect(await readInbox()).toHaveLength(1);
    });

    it("a known event id with another body, as a second row", async () => {
      expect((await post(receiving.port, makeBody("evt_1", "a"))).status).toBe(200);
      expect((await post(receiving.port, makeBody("evt_1", "b"))).status).toBe(200);
      expect((await readInbox()).map((row) => row.event_id)).toEqual(["evt_1", "evt_1"]);
    });

    it("the same event for two sources, as two rows", async () => {
      const body = makeBody("evt_1");
      expect((await post(receiving.port, body)).status).toBe(200);
      expect((await post(receiving.port, body, { source: "test", secret: TEST_SECRET })).status).toBe(200);
      expect((await readInbox()).map((row) => row.source_id)).toEqual(["live", "test"]);
    });

    it("a signature with any of the source's secrets, and records which", async () => {
      expect((await post(receiving.port, makeBody("evt_1"), { secret: LIVE_SECRETS[1] })).status).toBe(200);
      expect((await readInbox())[0]?.secret_index).toBe(1);
    });

    it.each(["application/json", "Application/JSON; charset=utf-8", "application/vnd.x.v1+json"])(
      "the content type %s",
      async (type) => {
        const answer = await post(receiving.port, makeBody(), { headers: { "content-type": type } });
        expect(answer.status).toBe(200);
      },
    );

    it("a query string or a slash after the source's name", async () => {
      const body = makeBody();
      for (const path of ["live?retry=1", "live/", "live/?a"]) {
        expect((await post(receiving.port, body, { source: path })).status).toBe(200);
      }
    });

    it("a body of exactly 1 MiB, and one in chunks", async () => {
      expect((await post(receiving.port, paddedTo(MEBIBYTE))).status).toBe(200);
      const body = makeBody("evt_chunked");
      const head = makeHead("POST /webhooks/live", [
        ["Content-Type", "application/json"],
        ["Transfer-Encoding", "chunked"],
        ...Object.entries(signHeaders(body)),
      ]);
      const chunks = [body.subarray(0, 7), body.subarray(7)].flatMap((chunk) => [
        `${chunk.length.toString(16)}\r\n`,
        chunk,
        "\r\n",
      ]);
      expect((await sendRaw(receiving.port, head, ...chunks, "0\r\n\r\n")).status).toBe(200);
      expect((await readInbox()).map((row) => row.body.length)).toEqual([MEBIBYTE, body.length]);
    });

    it.each([
      ["is no JSON", Buffer.from("hello")],
      ["is not UTF-8", Buffer.from([0x7b, 0xff, 0xfe, 0x7d])],
      ["begins with a byte order mark", Buffer.from('\ufeff{"id":"evt_1"}')],
      ["is cut short", Buffer.from('{"id":"evt_1"')],
      ["is no object", Buffer.from('["evt_1"]')],
      ["has a number as id", makeBody(17)],
      ["has an empty id", makeBody("")],
      ["has an id of 256 characters", makeBody("x".repeat(256))],
      ["has NUL in its id", makeBody("evt\0")],
      ["has half a surrogate pair in its id", makeBody("evt\ud800")],
      ["is nested a hundred thousand deep", Buffer.from("[".repeat(100_000) + "]".repeat(100_000))],
    ])("a body that %s, under the id of its header", async (_, body) => {
      expect((await post(receiving.port, body, { id: "msg_1" })).status).toBe(200);
      const [row] = await readInbox();
      expect(row?.event_id).toBe("msg_1");
      expect(row?.body.equals(body)).toBe(true);
    });

    it("a body without any id, under its hash", async () => {
      const body = Buffer.from("hello");
      const headers = makeSigner({ scheme: loadScheme("github"), secret: "a plain secret" })({
        id: "",
        body,
        nowSeconds: 0,
      });
      await database.pool.query(
        "insert into mirror.sources values ('plain', 'live', 'http://x') on conflict do nothing",
      );
      expect((await post(receiving.port, body, { source: "plain", headers })).status).toBe(200);
      expect((await readInbox())[0]?.event_id).toBe(
        "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
      );
    });

    it("the longest id that fits the key", async () => {
      const id = "ü".repeat(255);
      expect((await post(receiving.port, makeBody(id))).status).toBe(200);
      expect((await readInbox())[0]?.event_id).toBe(id);
    });
  });

  describe("refuses", () => {
    afterEach(async () => {
      const stored = await readInbox();
      if (stored.length > 0) throw new Error("a request that was refused is in the inbox");
    });

    it.each(["GET", "PUT", "DELETE", "OPTIONS", "PATCH"])("%s with 405 and Allow", async (method) => {
      const answer = await fetch(`http://127.0.0.1:${receiving.port}/webhooks/live`, { method });
      expect(answer.status).toBe(405);
      expect(answer.headers.get("allow")).toBe("POST");
    });

    it("an address of no source with 404", async () => {
      const body = makeBody();
      for (const source of ["", "other", "live/more", "LIVE", "__proto__", "%6cive", "live%00"]) {
        expect((await post(receiving.port, body, { source })).status).toBe(404);
      }
    });

    it.each([
      ["none", undefined],
      ["another", "text/plain"],
      ["a form's", "application/x-www-form-urlencoded"],
      ["one that only begins like JSON", "application/jsonp"],
    ])("a content type that is %s with 415", async (_, type) => {
      const body = makeBody();
      const head = makeHead("POST /webhooks/live", [
        ...(type === undefined ? [] : [["Content-Type", type] as const]),
        ["Content-Length", body.length],
        ...Object.entries(signHeaders(body)),
      ]);
      expect((await sendRaw(receiving.port, head, body)).status).toBe(415);
    });

    it("an empty body with 400: of length zero, of no length, of no chunks", async () => {
      const common = [["Content-Type", "application/json"], ...Object.entries(signHeaders(Buffer.alloc(0)))];
      const ways: [string, string | number][][] = [
        [["Content-Length", 0]],
        [],
        [["Transfer-Encoding", "chunked"]],
      ];
      for (const way of ways) {
        const head = makeHead("POST /webhooks/live", [...(common as [string, string][]), ...way]);
        const parts = way[0]?.[0] === "Transfer-Encoding" ? [head, "0\r\n\r\n"] : [head];
        expect((await sendRaw(receiving.port, ...parts)).status).toBe(400);
      }
    });

    it("every kind of wrong signature with the same 401", async () => {
      const body = makeBody();
      const good = signHeaders(body);
      const nowSeconds = Math.floor(Date.now() / 1_000);
      const answers = await Promise.all([
        post(receiving.port, body, { secret: TEST_SECRET }),
        post(receiving.port, body, { source: "test" }),
        post(receiving.port, makeBody(), { headers: good }),
        post(receiving.port, body, { nowSeconds: nowSeconds - 310 }),
        post(receiving.port, body, { nowSeconds: nowSeconds + 310 }),
        post(receiving.port, body, { headers: { "webhook-signature": "v1," } }),
        post(receiving.port, body, { headers: { "webhook-signature": "\u00fc" } }),
        post(receiving.port, body, { headers: { "webhook-timestamp": `${nowSeconds}abc` } }),
        post(receiving.port, body, { headers: { "webhook-id": "a.b" } }),
        fetch(`http://127.0.0.1:${receiving.port}/webhooks/live`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: new Uint8Array(body),
        }),
      ]);
      expect(answers.map((answer) => answer.status)).toEqual(Array(10).fill(401));
      const texts = await Promise.all(answers.map((answer) => answer.text()));
      expect(new Set(texts)).toEqual(new Set(['{"error":"unauthorized"}']));
    });

    it.each(["webhook-signature", "webhook-id", "webhook-timestamp"])(
      "a request with two headers %s with 400",
      async (name) => {
        const body = makeBody();
        const value = signHeaders(body)[name] ?? "";
        const [head, bytes] = signed(body, [name, value]);
        expect((await sendRaw(receiving.port, head, bytes)).status).toBe(400);
      },
    );

    it("a body over 1 MiB with 413: declared, sent, or in chunks without end", async () => {
      const body = paddedTo(MEBIBYTE + 1);
      const declared = await sendRaw(receiving.port, signed(body)[0]);
      expect(declared.status).toBe(413);
      expect((await post(receiving.port, body)).status).toBe(413);

      const connection = await openRaw(receiving.port);
      connection.write(
        makeHead("POST /webhooks/live", [
          ["Content-Type", "application/json"],
          ["Transfer-Encoding", "chunked"],
          ...Object.entries(signHeaders(body)),
        ]),
      );
      const chunk = Buffer.alloc(65_536, "x");
      for (let sent = 0; sent <= MEBIBYTE; sent += chunk.length) {
        connection.write(`${chunk.length.toString(16)}\r\n`);
        connection.write(chunk);
        connection.write("\r\n");
      }
      expect((await connection.readAnswer()).status).toBe(413);
      connection.abort();
    });
  });

  it("answers the next request on a connection after each refusal", async () => {
    const body = makeBody("evt_1");
    const connection = await openRaw(receiving.port);
    const bad = makeHead("POST /webhooks/live", [
      ["Content-Type", "application/json"],
      ["Content-Length", body.length],
    ]);
    const big = paddedTo(MEBIBYTE + 1);
    for (const [head, bytes, status] of [
      [bad, body, 401],
      [bad.replace("application/json", "text/plain"), body, 415],
      [bad.replace("webhooks/live", "webhooks/none"), body, 404],
      [bad.replace(String(body.length), String(big.length)), big, 413],
      [...signed(body), 200],
    ] as const) {
      connection.write(head);
      connection.write(bytes);
      expect((await connection.readAnswer()).status).toBe(status);
    }
    connection.abort();
  });

  it("tolerates a sender that disconnects in the middle of its body", async () => {
    const body = makeBody();
    const [head] = signed(body);
    const connection = await openRaw(receiving.port);
    connection.write(head);
    connection.write(body.subarray(0, 10));
    await vi.waitFor(async () => {
      const open = await new Promise((resolve) =>
        receiving.server.getConnections((_, count) => resolve(count)),
      );
      expect(open).toBe(1);
    }, 60_000);
    connection.abort();
    await expect.poll(() => receiving.counts.aborted).toBe(1);
    expect(receiving.lines).toEqual([]);
    expect((await post(receiving.port, body)).status).toBe(200);
  });

  it("logs a flood of bad signatures once, without anything that was sent", async () => {
    const body = makeBody("evt_secret");
    const headers = { "webhook-signature": "v1,c2VjcmV0IHZhbHVl", "x-hub-digest": "canary-value" };
    await Promise.all(Array.from({ length: 60 }, () => post(receiving.port, body, { headers })));
    expect(receiving.counts.unauthorized).toBe(60);
    expect(receiving.lines).toEqual([
      expect.objectContaining({
        outcome: "unauthorized",
        source: "live",
        reason: "signature_malformed",
      }),
    ]);
    expect(JSON.stringify(receiving.lines)).not.toMatch(/c2VjcmV0|canary|evt_secret/);
  });
});

it("slow senders are answered 408, whether the head or the body is slow", async () => {
  const receiving = await startReceiving({
    url: database.url,
    mount: "by http.createServer",
    serverLimits: { headersTimeout: 200, requestTimeout: 400, connectionsCheckingInterval: 50 },
  });
  onTestFinished(() => receiving.close());
  const body = makeBody();
  const [head] = signed(body);
  const slowHead = await sendRaw(receiving.port, head.slice(0, 40));
  const slowBody = await sendRaw(receiving.port, head, body.subarray(0, 10));
  expect([slowHead.status, slowBody.status]).toEqual([408, 408]);
  expect(receiving.counts).toMatchObject({ aborted: 1 });
  expect(receiving.counts).not.toHaveProperty("failed");
});

it.each([
  ["parsed", express.json()],
  ["decoded", express.text({ type: () => true })],
])("answers 500, and never takes for verified, a body that was %s before", async (_, parser) => {
  const receiving = await startReceiving({ url: database.url, mount: "in Express", parser });
  onTestFinished(() => receiving.close());
  const answer = await post(receiving.port, makeBody());
  expect([answer.status, await answer.text()]).toEqual([500, '{"error":"internal_error"}']);
  expect(await readInbox()).toEqual([]);
  expect(receiving.lines).toEqual([
    expect.objectContaining({ level: "error", outcome: "body_already_read" }),
  ]);
});
