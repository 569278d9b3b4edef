import { beforeEach, describe, expect, it } from "vitest";
import type { Pool } from "../../../src/database/database.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { countQuarantined, replayQuarantined } from "../../../src/quarantine/replay.sql.ts";
import { eraseOrder, previewErasure } from "../../../src/retention/erase.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { runCommand } from "../../support/programs/command.ts";
import { findAnywhere } from "../../support/mirror/findAnywhere.ts";
import {
  at,
  makeEventBody,
  makeOrder,
  makeSnapshot,
  putIntoInbox,
  readAt,
} from "../../support/mirror/orders.ts";
import { emptying } from "../../support/mirror/emptying.ts";

const { database, pool, apply } = await openLiveMirror();
beforeEach(async () => {
  await pool.query(
    emptying("orders history changes pending quarantine refetches inbox erasures", {
      restartsIdentity: true,
    }),
  );
});

const ERASED = { sourceId: "live", reference: "DO-1" };
const json = (value: unknown) => Buffer.from(JSON.stringify(value));
const event = (data: unknown) => json({ id: "e", type: "order.note", created: at(1), livemode: true, data });
const customerOf = (canary: string) => ({ customer: { phone: canary } });
const orderOf = (canary: string, reference: string, version: number) => ({
  reference,
  updatedAt: at(version),
  more: customerOf(canary),
});
const escaped = (text: string) =>
  text.replaceAll(/[DO]/g, (letter) => `\\u00${letter.codePointAt(0)?.toString(16).toUpperCase()}`);

const percentEncoded = (text: string) =>
  text.replaceAll(/[DO-]/g, (letter) => `%${letter.codePointAt(0)?.toString(16)}`);

/** Each form in which an event or a read can mention an order. */
const KINDS: Readonly<Record<string, (canary: string, reference: string) => Buffer | "read">> = {
  "an event": (canary, reference) => makeEventBody({ id: "e", order: orderOf(canary, reference, 5) }),
  "a stale event": (canary, reference) => makeEventBody({ id: "e", order: orderOf(canary, reference, 1) }),
  "an event of the other mode": (canary, reference) =>
    makeEventBody({ id: "e", livemode: false, order: orderOf(canary, reference, 6) }),
  "an order without updatedAt": (canary, reference) => event({ reference, ...customerOf(canary) }),
  "an event without created": (canary, reference) =>
    json({ id: "e", livemode: true, data: makeOrder(orderOf(canary, reference, 7)) }),
  "no JSON": (canary, reference) => Buffer.from(`order ${reference}. Call ${canary}`),
  "JSON that was cut off": (canary, reference) =>
    makeEventBody({ id: "e", order: orderOf(canary, reference, 8) }).subarray(0, -2),
  "text as data": (canary, reference) => event(`${canary} asks where ${reference} is`),
  "an order within data": (canary, reference) => event({ order: { reference, ...customerOf(canary) } }),
  "a reference under another name": (canary, reference) =>
    event({ orderReference: reference, ...customerOf(canary) }),
  "an address with the reference": (canary, reference) =>
    event({ url: `https://example.com/orders/${reference}?track=1`, ...customerOf(canary) }),
  "an array of orders": (canary, reference) => event([makeOrder(orderOf(canary, reference, 9))]),
  "an array as the body": (canary, reference) => json([{ reference, ...customerOf(canary) }]),
  "a reference with escapes, not JSON": (canary, reference) =>
    Buffer.from(`{"reference":"${escaped(reference)}","phone":"${canary}",}`),
  "JSON within JSON, with escapes": (canary, reference) =>
    event({ note: JSON.stringify({ at: escaped(reference), phone: canary }) }),
  "a reference on a line of its own": (canary, reference) =>
    event({ note: `About\n${reference}\n${canary}` }),
  "a reference on a line of its own, in JSON within JSON": (canary, reference) =>
    event({ note: JSON.stringify({ note: `\t${reference}\n${canary}` }) }),
  "a message in base64": (canary, reference) =>
    event({
      message: Buffer.from(JSON.stringify({ reference, phone: canary })).toString("base64"),
      of: canary,
    }),
  "a message in base64url, without padding": (canary, reference) =>
    event({ message: Buffer.from(JSON.stringify({ a: 1, reference })).toString("base64url"), of: canary }),
  "an address with an encoded reference": (canary, reference) =>
    event({ url: `https://example.com/?of=${percentEncoded(reference)}`, ...customerOf(canary) }),
  "a form": (canary, reference) => Buffer.from(`of=${percentEncoded(reference)}&name=${canary}`),
  "character references of HTML": (canary, reference) =>
    event({
      note: `<p>${reference.replaceAll(/[DO-]/g, (letter) => `&#x${letter.codePointAt(0)?.toString(16)};`)}</p>${canary}`,
    }),
  "objects in place of texts and times": (canary, reference) =>
    makeEventBody({
      id: "e",
      order: {
        reference,
        updatedAt: at(5),
        more: {
          fleet: { name: { of: canary } },
          branch: { id: { of: canary }, reference: [canary] },
          livemode: { of: canary },
          schedule: {
            mode: [canary],
            resolved: { pickupTime: { of: canary }, deliveryTime: [canary], basis: [[canary]] },
          },
          pickupTime: [canary],
          realDeliveryTime: { of: canary },
        },
      },
    }),
  "words in place of times": (canary, reference) =>
    makeEventBody({
      id: "e",
      order: { reference, updatedAt: at(5), more: { pickupTime: `call ${canary}`, deliveryTime: canary } },
    }),
  "UTF-16": (canary, reference) => Buffer.from(JSON.stringify({ reference, phone: canary }), "utf16le"),
  "an order that a read showed": () => "read",
  "a read that names no order": (canary, reference) =>
    Buffer.from(JSON.stringify({ of: { reference }, canary })),
};

let count = 0;
async function take(kind: string, canary: string, reference: string): Promise<void> {
  const body = KINDS[kind]?.(canary, reference);
  if (body === undefined) throw new TypeError(`no kind ${kind}`);
  if (body === "read" || kind === "a read that names no order") {
    await apply.applyReads({
      sourceId: "live",
      via: "poll",
      snapshots: body === "read" ? [makeSnapshot(orderOf(canary, reference, 10))] : [],
      unreadable: body === "read" ? [] : [{ raw: body.toString(), detail: "no reference", reference: null }],
      time: readAt(parseInstant(at(100)), 5),
    });
    return;
  }
  await apply.applyEvents(await putIntoInbox(pool, [{ eventId: `evt_${(count += 1)}`, body }]));
}

async function replayAll(): Promise<void> {
  const filter = { quarantineId: null, sourceId: null, reason: null };
  const { throughId } = await countQuarantined(pool, filter);
  if (throughId === null) return;
  const { seqs } = await replayQuarantined(pool, { filter, throughId, limit: 1_000 });
  await apply.applyEvents(seqs);
}

describe("erasing an order", () => {
  it.each(Object.keys(KINDS))(
    "removes the person from %s, before and after, and leaves other orders alone",
    async (kind) => {
      await take(kind, "canary-before", "DO-1");
      await take(kind, "canary-of-another", "DO-12");
      expect(await findAnywhere(pool, "canary-before")).not.toEqual([]);
      expect(await eraseOrder(pool, ERASED)).toMatchObject({ doubtful: [] });
      expect(await findAnywhere(pool, "canary-before")).toEqual([]);
      await take(kind, "canary-after", "DO-1");
      await replayAll();
      await take(kind, "canary-last", "DO-1");
      for (const canary of ["canary-before", "canary-after", "canary-last"])
        expect(await findAnywhere(pool, canary)).toEqual([]);
      expect(await findAnywhere(pool, "canary-of-another")).not.toEqual([]);
    },
  );

  it.each([
    "DO 1",
    String.raw`A\B`,
    'a "b"',
    "7",
    "\u00c4-1",
    "A\u0308-1",
    "/orders/1",
    "a\tb",
    "x".repeat(255),
  ])("finds the reference %j in an event about no order, before and after", async (reference) => {
    const body = (canary: string) =>
      event({ empty: "", long: "y".repeat(300), of: { named: reference, ...customerOf(canary) } });
    const send = async (canary: string) =>
      apply.applyEvents(await putIntoInbox(pool, [{ eventId: `evt_${(count += 1)}`, body: body(canary) }]));
    await send("canary-before");
    expect(await eraseOrder(pool, { sourceId: "live", reference })).toMatchObject({ doubtful: [] });
    await send("canary-after");
    for (const canary of ["canary-before", "canary-after"])
      expect(await findAnywhere(pool, canary)).toEqual([]);
  });

  it.each([
    ["composed letters", "\u00c4-1", "A\u0308-1"],
    ["decomposed letters", "A\u0308-1", "about \u00c4-1"],
    ["letters of full width", "DO-1", "\uff24\uff2f\uff0d\uff11"],
    ["another dash", "DO-1", "about DO\u20131."],
    ["a mark of no width", "DO-1", "DO\u200b-1"],
    ["another case", "DO-1", "do-1"],
  ])("lists an event with the reference in %s", async (_how, reference, note) => {
    await apply.applyEvents(
      await putIntoInbox(pool, [{ eventId: `evt_${(count += 1)}`, body: event({ note }) }]),
    );
    expect((await previewErasure(pool, { sourceId: "live", reference })).doubtful).toMatchObject([
      { mention: "perhaps" },
    ]);
  });

  it("lists an event that names only an id that the business gave up", async () => {
    for (const [version, externalOrderId] of [
      [1, "shop-old"],
      [2, "shop-new"],
    ] as const) {
      const body = makeEventBody({
        id: "e",
        order: { ...orderOf("x", "DO-1", version), more: { externalOrderId } },
      });
      await apply.applyEvents(await putIntoInbox(pool, [{ eventId: `evt_${(count += 1)}`, body }]));
    }
    await apply.applyEvents(
      await putIntoInbox(pool, [{ eventId: "evt_old", body: event({ of: "shop-old", phone: "canary" }) }]),
    );
    expect((await previewErasure(pool, ERASED)).doubtful).toMatchObject([{ mention: "perhaps" }]);
  });

  const EVENT_KINDS = Object.keys(KINDS).filter((kind) => !kind.includes("read"));
  it.each(EVENT_KINDS)(
    "removes the person from %s that awaits a decision, and when it is sent again",
    async (kind) => {
      const body = KINDS[kind]?.("canary-waiting", "DO-1");
      if (!Buffer.isBuffer(body)) throw new TypeError(`${kind} is no event`);
      await take("an event", "canary-known", "DO-1");
      const waiting = await putIntoInbox(pool, [{ eventId: "evt_waiting", body }]);
      await eraseOrder(pool, ERASED);
      await apply.applyEvents(waiting);
      // A sender without an answer repeats the event; another body arrives under the same id.
      const again = Buffer.concat([body, Buffer.from(" ")]);
      for (const retry of [body, again])
        await apply.applyEvents(await putIntoInbox(pool, [{ eventId: "evt_waiting", body: retry }]));
      await replayAll();
      expect(await findAnywhere(pool, "canary-")).toEqual([]);
    },
  );

  it("finds an event whose decision is no longer in the history", async () => {
    await take("an event", "canary-1", "DO-1");
    await take("an array of orders", "canary-2", "DO-1");
    await take("an array of orders", "canary-3", "DO-12");
    await pool.query(emptying("history"));
    await eraseOrder(pool, ERASED);
    expect(
      await pool.query("select seq from mirror.inbox where body = '{\"erased\":true}' order by seq"),
    ).toMatchObject({
      rows: [{ seq: "1" }, { seq: "2" }],
    });
  });

  it("finds what was decided during the search and during the search for that", async () => {
    const decide = async (canary: string) => {
      await pool.query(
        `with event as (
           insert into mirror.inbox (source_id, event_id, body_hash, body, secret_index)
           values ('live', $1, '', convert_to('{"note":"DO-1 ' || $1 || '"}', 'UTF8'), 0) returning seq)
         insert into mirror.history (source_id, via, verdict, inbox_seq) select 'live', 'webhook', 'ignored', seq from event`,
        [canary],
      );
    };
    // Each query of the inbox is followed by one more decided event.
    const looked: string[] = [];
    const watched = {
      connect: () => pool.connect(),
      query: async (text: string, values: unknown[]) => {
        const result = await pool.query(text, values);
        if (text.includes("mirror.inbox")) {
          looked.push(text);
          await decide(`canary-${looked.length}`);
        }
        return result;
      },
    } as unknown as Pool;
    await eraseOrder(watched, ERASED);
    expect(looked).toHaveLength(2);
    expect(await findAnywhere(pool, '"note":"DO-1')).toEqual([]);
  });

  it("lists possible mentions of the order, and erases those that a person names", async () => {
    await take("an event", "x", "DO-1");
    const put = async (body: Buffer) =>
      apply.applyEvents(await putIntoInbox(pool, [{ eventId: `evt_${(count += 1)}`, body }]));
    await put(event({ orders: "shop-DO-1", phone: "canary-own-id" }));
    await put(event({ note: "about do-1", phone: "canary-case" }));
    await put(Buffer.from([0xff, 0xfe, 0xc0, 0x01, 0x02]));
    await put(event({ note: "about DO-12", phone: "canary-other" }));
    const doubtful = [
      { entry: "event:2", mention: "perhaps" },
      { entry: "event:3", mention: "perhaps" },
      { entry: "event:4", mention: "unreadable" },
    ];
    expect((await previewErasure(pool, ERASED)).doubtful).toEqual(doubtful);
    const run = (...args: string[]) => runCommand(["erase", "DO-1", ...args], { databaseUrl: database.url });
    expect(await run("--yes", "--also", "event:5")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("event:5") as unknown,
    });
    const done = await run("--yes", "--json", "--also", "event:2", "event:3");
    expect(JSON.parse(done.stdout)).toMatchObject({ erased: { doubtful: [doubtful[2]] } });
    expect(await findAnywhere(pool, "canary-own-id")).toEqual([]);
    expect(await findAnywhere(pool, "canary-case")).toEqual([]);
    expect(await findAnywhere(pool, "canary-other")).not.toEqual([]);
  });

  it("delays batches only briefly, however much there is to search", async () => {
    await pool.query(`
      insert into mirror.inbox (source_id, event_id, body_hash, body, secret_index)
        select 'live', 'evt_' || n, convert_to(n::text, 'UTF8'),
          convert_to(json_build_object('note', repeat(md5(n::text), 60))::text, 'UTF8'), 0 from generate_series(1, 20000) n;
      insert into mirror.history (source_id, via, verdict, inbox_seq)
        select 'live', 'webhook', 'quarantined', seq from mirror.inbox;
      insert into mirror.quarantine (source_id, via, inbox_seq, reason)
        select 'live', 'webhook', seq, 'not_an_envelope' from mirror.inbox`);
    // As autovacuum does within a minute; without statistics the plan is unpredictable.
    await pool.query("analyze mirror.inbox, mirror.history, mirror.quarantine");
    let over = false;
    const erasing = eraseOrder(pool, ERASED).finally(() => (over = true));
    let looks = 0;
    let held = 0;
    while (!over) {
      const { rowCount } = await database.pool.query(
        `select from pg_locks where relation = 'mirror.orders'::regclass and mode = 'ShareRowExclusiveLock' and granted`,
      );
      looks += 1;
      held += rowCount ?? 0;
    }
    await erasing;
    expect(looks).toBeGreaterThan(20);
    expect(held / looks).toBeLessThan(0.3);
  });
});
