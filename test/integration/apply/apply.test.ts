import { beforeEach, describe, expect, it } from "vitest";
import { makeApply } from "../../../src/apply/apply.ts";
import { formatInstant, instantFromMillis, parseInstant } from "../../../src/domain/order/instant.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { asPool, beside, openTestDatabase, untilWaiting } from "../../support/servers/database.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import {
  addSource,
  at,
  makeEventBody,
  makeOrder,
  makeSnapshot,
  putIntoInbox,
  readAt,
} from "../../support/mirror/orders.ts";
import { makeRandom, shuffle } from "../../support/faults/random.ts";
import { EMPTY_MIRROR } from "../../support/mirror/tables.ts";

const { pool } = await openTestDatabase({ purpose: "apply", max: 12 });

await addSource(pool, "live");
await addSource(pool, "test", "test");

beforeEach(() => pool.query(EMPTY_MIRROR));

const modes = new Map([
  ["live", "live"],
  ["test", "test"],
] as const);
const SETTLE_SECONDS = 5;

const { applyEvents, applyReads } = makeApply({
  pool,
  logger: silentLogger,
  modes,
});
const tell = async (...bodies: readonly Buffer[]) =>
  applyEvents(
    await putIntoInbox(
      pool,
      bodies.map((body, index) => ({ eventId: `evt_${index}`, body })),
    ),
  );

const select = async (text: string) => (await pool.query<Record<string, unknown>>(`select ${text}`)).rows;
const readOrders = () => select("* from mirror.orders order by source_id, reference");
const count = async (table: string) => (await select(`from mirror.${table}`)).length;
/** An event about the order R1 in the inbox. */
const put = (eventId: string, seconds: number, status = "created") => {
  const body = makeEventBody({ id: eventId, order: { reference: "R1", updatedAt: at(seconds), status } });
  return putIntoInbox(pool, [{ eventId, body }]);
};

/** Orders that pass every check in JavaScript, and that Postgres refuses. */
async function refusing(work: () => Promise<void>): Promise<void> {
  await pool.query("alter table mirror.orders add constraint refuse check (external_order_id <> 'poison')");
  try {
    await work();
  } finally {
    await pool.query("alter table mirror.orders drop constraint refuse");
  }
}
const POISON = { externalOrderId: "poison" };

it.each(["events", "reads"])(
  "%s that a busy database cannot apply in time come in smaller batches",
  async (what) => {
    const apply = makeLiveApply(pool);
    const orders = Array.from({ length: 40 }, (_, n) => ({
      reference: `R${n}`,
      updatedAt: at(1),
      more: { note: "x".repeat(45_000) },
    }));
    const events = orders.map((order, n) => ({
      eventId: `e${n}`,
      body: makeEventBody({ id: `e${n}`, order }),
    }));
    const seqs = await putIntoInbox(pool, events);
    const reads = {
      sourceId: "live",
      via: "poll",
      snapshots: orders.map(makeSnapshot),
      time: readAt(parseInstant(at(60)), SETTLE_SECONDS),
    } as const;
    await pool.query(`
    create function public.be_slow() returns trigger language plpgsql as $$ begin
      if (select count(*) from made) > 6 then raise exception using errcode = 'query_canceled'; end if;
      return null;
    end $$;
    create trigger be_slow after insert on mirror.orders referencing new table as made
      for each statement execute function public.be_slow()`);
    const attempt = () =>
      (what === "reads" ? apply.applyReads(reads) : apply.applyEvents(seqs)).then(
        () => "applied",
        ({ name }: Error) => name,
      );
    const outcomes: string[] = [];
    while (outcomes.length < 20 && outcomes.at(-1) !== "applied") outcomes.push(await attempt());
    await pool.query("drop function public.be_slow cascade");
    // At first all fit in one.
    expect([outcomes[0], outcomes.at(-1)]).toEqual(["UnavailableError", "applied"]);
    expect(await count("orders")).toBe(40);
  },
);

describe("events", () => {
  it("become the order's row, a history row and one change", async () => {
    const order = { reference: "R1", updatedAt: at(1), status: "picked_up" };
    expect(await tell(makeEventBody({ id: "evt_1", order }))).toMatchObject([
      { reference: "R1", verdict: "applied", status: "picked_up", eventId: "evt_0" },
    ]);
    expect(await readOrders()).toMatchObject([
      {
        reference: "R1",
        status: "picked_up",
        version: parseInstant(at(1)).toString(),
        pickup_time: "2026-03-01 09:20:00+00",
        settled: false,
        revision: 1,
      },
    ]);
    expect([await count("history"), await count("changes"), await count("pending")]).toEqual([1, 1, 0]);
  });

  it("wait in quarantine when dated ahead of the database's clock, although the provider's was never read", async () => {
    const ahead = (seconds: number) => formatInstant(instantFromMillis(Date.now() + seconds * 1_000));
    const dated = { near: 50, soon: 120, far: 40 * 365 * 86_400 };
    const seqs = await putIntoInbox(
      pool,
      Object.entries(dated).map(([reference, seconds]) => ({
        eventId: reference,
        body: makeEventBody({ id: reference, order: { reference, updatedAt: ahead(seconds) } }),
      })),
    );
    const decisions = await applyEvents(seqs);
    expect(decisions.map(({ verdict, reason }) => [verdict, reason])).toEqual([
      ["applied", null],
      ["quarantined", "dated_ahead"],
      ["quarantined", "dated_ahead"],
    ]);
    // When the time of the other comes, no later than in forty years, polls list it.
    const seconds = "extract(epoch from next_attempt_at - clock_timestamp())::int as seconds";
    expect(await select(`reference, ${seconds} from mirror.refetches`)).toEqual([
      { reference: "soon", seconds: expect.toSatisfy((one) => one > 100 && one < 140) },
    ]);
  });

  it("are decided once, however often their positions are announced", async () => {
    const seqs = await put("evt_1", 1);
    await Promise.all([applyEvents(seqs), applyEvents(seqs), applyEvents(seqs)]);
    expect(await applyEvents(seqs)).toEqual([]);
    expect(await count("history")).toBe(1);
  });

  it("are left to another worker that holds them, without a wait", async () => {
    const seqs = await put("evt_1", 1);
    const [worker, other] = [await pool.connect(), await pool.connect()];
    await worker.query("begin");
    await worker.query("select from mirror.pending for update");
    await other.query("set lock_timeout = '1ms'");
    try {
      expect(await makeLiveApply(asPool(other)).applyEvents(seqs)).toEqual([]);
    } finally {
      await worker.query("rollback");
      worker.release();
      other.release(true);
    }
    expect(await applyEvents(seqs)).toMatchObject([{ verdict: "applied" }]);
  });

  it("of a new order that show two states with one updatedAt, in one batch, ask for a read", async () => {
    const order = { reference: "R1", updatedAt: at(1) };
    const told = ["picked_up", "arrived_for_pickup"].map((status) =>
      makeEventBody({ id: status, order: { ...order, status } }),
    );
    expect(await tell(...told)).toMatchObject([{ verdict: "applied" }, { verdict: "stale", conflict: true }]);
    expect(await select("reference, reason from mirror.refetches")).toEqual([
      { reference: "R1", reason: "conflict" },
    ]);
  });

  it("that cannot be applied are quarantined in full and do not block the others", async () => {
    const ofOtherMode = makeOrder({ reference: "R3", updatedAt: at(1), livemode: false });
    const deep = `${"[".repeat(80)}${"]".repeat(80)}`;
    const poisoned: readonly (readonly [reason: string, body: string | Buffer])[] = [
      ["not_json", "not json"],
      ["not_json", Buffer.from([0xff, 0xfe])],
      ["not_an_envelope", "[]"],
      ["not_an_envelope", '{"id":"x"}'],
      ["unreadable_order", '{"id":"x","data":{"reference":"R","updatedAt":"yesterday"}}'],
      ["unreadable_created", `{"id":"x","data":{"reference":"R","updatedAt":"${at(1)}"}}`],
      ["unreadable_order", `{"id":"x","data":{"reference":"R","updatedAt":"${at(1)}","deep":${deep}}}`],
      [
        "unreadable_order",
        `{"id":"x","created":"${at(1)}","data":{"reference":"\\ud800","updatedAt":"${at(1)}"}}`,
      ],
      // In the envelope, and in the order alone.
      [
        "wrong_mode",
        makeEventBody({ id: "mode", order: { reference: "R2", updatedAt: at(1), livemode: false } }),
      ],
      ["wrong_mode", JSON.stringify({ id: "e", type: "order.created", created: at(1), data: ofOtherMode })],
    ];
    const good = makeEventBody({ id: "good", order: { reference: "R1", updatedAt: at(1) } });
    const decisions = await tell(...poisoned.map(([, body]) => Buffer.from(body)), good);
    expect(decisions.at(-1)).toMatchObject({ verdict: "applied" });
    expect(await select("reason from mirror.quarantine order by inbox_seq")).toEqual(
      poisoned.map(([reason]) => ({ reason })),
    );
    expect(await readOrders()).toMatchObject([{ reference: "R1" }]);
    expect(await count("pending")).toBe(0);
  });

  it("keep their snapshots exactly as received, of any type, and beside one that is about no order", async () => {
    const texts = [
      `{"reference": "R0",  "updatedAt":"${at(1)}", "status":"created", "9":1, "big": 9007199254740993, "nul":"a\\u0000b"}`,
      ...["plain", "é 𝄞 \ufffd", "", "日本"].map((note, index) =>
        JSON.stringify(makeOrder({ reference: `R${index + 1}`, updatedAt: at(1), more: { note } })),
      ),
    ];
    const bodyOf = (type: string, data: string) =>
      Buffer.from(`{"id":"e","type":"${type}","created":"${at(1)}","livemode":true,"data":${data}}`);
    const [first, ...others] = texts.map((text) => bodyOf("order.of_a_new_type", text));
    const marked = Buffer.concat([Buffer.from("\ufeff"), first!]);
    const decisions = await tell(marked, bodyOf("branch.updated", '{"id":1}'), ...others);
    expect(decisions.map(({ verdict }) => verdict)).toEqual([
      "applied",
      "ignored",
      ...others.map(() => "applied"),
    ]);
    for (const table of ["orders", "snapshots"])
      expect(
        await select(`raw::text from mirror.${table} where reference is not null order by reference`),
      ).toEqual(texts.map((raw) => ({ raw })));
    expect(await count("quarantine")).toBe(0);
  });

  it("are applied however large they are together, each batch within its bytes", async () => {
    const bodies = Array.from({ length: 9 }, (_, index) => {
      const more = { note: String(index).repeat(900_000) };
      return makeEventBody({ id: `${index}`, order: { reference: `R${index}`, updatedAt: at(1), more } });
    });
    let statements = 0;
    const countOne = () => void (statements += 1);
    pool.on("acquire", countOne);
    const decisions = await tell(...bodies);
    pool.off("acquire", countOne);
    expect(decisions.map(({ verdict }) => verdict)).toEqual(bodies.map(() => "applied"));
    // One to store them; each of two batches reads the inbox and applies.
    expect(statements).toBe(5);
    expect(await count("pending")).toBe(0);
  });

  it("of references and numbers of the business as long as an index holds are applied; beyond, they say why not", async () => {
    const long = "R".repeat(1_024);
    const number = "12345678901234567890";
    const sketches = [
      { reference: "A", updatedAt: at(1), more: { externalOrderId: number } },
      { reference: long, updatedAt: at(1), more: { externalOrderId: "é".repeat(1_024) } },
      { reference: `${long}R`, updatedAt: at(1) },
      { reference: "日".repeat(700), updatedAt: at(1) },
      { reference: "R1", updatedAt: at(1), more: { externalOrderId: "E".repeat(1_025) } },
    ];
    const bodies = sketches.map((order, index) => String(makeEventBody({ id: `${index}`, order })));
    // A number is kept as text, digit by digit.
    await tell(...bodies.map((body) => Buffer.from(body.replace(`"${number}"`, number))));
    expect(await readOrders()).toMatchObject([
      { reference: "A", external_order_id: number },
      { reference: long, external_order_id: "é".repeat(1_024) },
    ]);
    expect(await select("detail from mirror.quarantine order by inbox_seq")).toEqual(
      ["reference", "reference", "externalOrderId"].map((name) => ({
        detail: `${name} is longer than 1,024 characters, or than 2,048 bytes`,
      })),
    );
  });

  it("that the database refuses are quarantined, and the rest of the batch is applied", async () => {
    await refusing(async () => {
      const events = Array.from({ length: 9 }, (_, index) => {
        const order = { reference: `R${index}`, updatedAt: at(1), more: index === 4 ? POISON : {} };
        return { eventId: `e${index}`, body: makeEventBody({ id: `e${index}`, order }) };
      });
      const seqs = await putIntoInbox(pool, events);
      let connections = 0;
      const countOne = () => void (connections += 1);
      pool.on("acquire", countOne);
      const decisions = await applyEvents(seqs);
      pool.off("acquire", countOne);
      // One to read the inbox, one for all statements: a refused statement locks its rows until its connection is
      // ready again, and its halves would skip them on another connection.
      expect(connections).toBe(2);
      expect(decisions.filter((decision) => decision.verdict === "applied")).toHaveLength(8);
      expect(decisions.filter((decision) => decision.verdict === "quarantined")).toMatchObject([
        { reference: "R4" },
      ]);
      expect(await count("pending")).toBe(0);
      // So is a read, with its text.
      const [poison, good] = ["R10", "R11"].map((reference, index) =>
        makeSnapshot({ reference, updatedAt: at(1), more: index === 0 ? POISON : {} }),
      );
      const time = readAt(parseInstant(at(60)), SETTLE_SECONDS);
      await applyReads({ sourceId: "live", via: "poll", snapshots: [poison!, good!], time });
      expect(await select("reference, raw is null as event from mirror.quarantine order by 2, 1")).toEqual([
        { reference: "R10", event: false },
        { reference: "R4", event: true },
      ]);
      expect(await count("orders")).toBe(9);
    });
  });
});

describe("reads", () => {
  const read = (seconds: number, sketches: Parameters<typeof makeSnapshot>[0][]) => ({
    sourceId: "live",
    via: "poll" as const,
    snapshots: sketches.map(makeSnapshot),
    time: readAt(parseInstant(at(seconds)), SETTLE_SECONDS),
  });

  it("win over an event of the same version, because only reads can be settled", async () => {
    const shown = { reference: "R1", updatedAt: at(1), status: "cancelled" };
    await tell(makeEventBody({ id: "e", order: shown }));
    const truth = { reference: "R1", updatedAt: at(1), status: "created" };
    expect(await applyReads(read(60, [truth]))).toMatchObject([{ verdict: "applied", conflict: true }]);
    expect(await readOrders()).toMatchObject([
      { status: "created", settled: true, previous_status: "cancelled" },
    ]);
    // What a read has settled needs no other one, when the event comes again.
    expect(await tell(makeEventBody({ id: "again", order: shown }))).toMatchObject([{ conflict: true }]);
    expect(await count("refetches")).toBe(0);
  });

  it.each([
    ["new", "picked_up", "delivered"],
    ["new", "delivered", "picked_up"],
    ["known", "picked_up", "delivered"],
    ["known", "delivered", "picked_up"],
  ])(
    "that contradict each other request a refetch even when they are decided concurrently: of a %s order, %s before %s",
    async (kind, first, second) => {
      if (kind === "known") await applyReads(read(3, [{ reference: "R1", updatedAt: at(0) }]));
      const [one, two] = [await put("one", 1, first), await put("two", 1, second)];
      await beside(
        pool,
        (client) => makeLiveApply(asPool(client)).applyEvents(one),
        () => applyEvents(two),
      );
      expect(await select("reference from mirror.refetches")).toEqual([{ reference: "R1" }]);
    },
  );

  it("quarantine an unreadable element once, however often it is read", async () => {
    const unreadable = [{ raw: '{"reference":null}', detail: "not an order", reference: null }];
    await applyReads({ ...read(60, []), unreadable });
    await applyReads({ ...read(90, []), unreadable });
    expect(await count("quarantine")).toBe(1);
    expect(await count("history")).toBe(1);
  });

  it("never store an order of the other mode in a source, nor refuse one that names none", async () => {
    const decisions = await applyReads(read(60, [{ reference: "R1", updatedAt: at(1), livemode: false }]));
    expect(decisions).toMatchObject([{ verdict: "quarantined" }]);
    expect(await readOrders()).toEqual([]);
    const unnamed = (reference: string) => ({ reference, updatedAt: at(1), more: { livemode: undefined } });
    const shown = await applyReads({ ...read(60, [unnamed("R2")]), sourceId: "test" });
    expect(shown).toMatchObject([{ verdict: "applied" }]);
    const { livemode: _, ...event } = JSON.parse(String(makeEventBody({ id: "e", order: unnamed("R3") })));
    const told = { sourceId: "test", eventId: "e", body: Buffer.from(JSON.stringify(event)) };
    expect(await applyEvents(await putIntoInbox(pool, [told]))).toMatchObject([{ verdict: "applied" }]);
  });

  it("mark every state that they contradict, whatever its verdict was, and no other", async () => {
    const state = (seconds: number) => ({ reference: "R1", updatedAt: at(seconds), status: `of ${seconds}` });
    const claim = (seconds: number) => tell(makeEventBody({ id: `${seconds}`, order: state(seconds) }));
    await applyReads(read(10, [state(1)]));
    for (const seconds of [8, 7]) await claim(seconds);
    await applyReads(read(15, [state(6)]));
    for (const seconds of [9, 13]) await claim(seconds);
    await applyReads(read(20, [state(1)]));
    // One page shows it twice: it changed while the page was made.
    await applyReads(read(25, [state(2), state(3)]));
    await applyReads(read(30, [state(3)]));
    const rows = await select(
      `h.status, verdict, refuted, coalesce('after ' || previous_status, 'after none'), s.raw ->> 'status'
       from mirror.history h join mirror.snapshots s using (history_id) order by history_id`,
    );
    expect(rows.map((row) => Object.values(row).join(" "))).toEqual([
      "of 1 applied false after none of 1",
      "of 8 applied true after of 1 of 8",
      "of 7 stale true after none of 7",
      "of 6 corrected true after of 8 of 6",
      "of 9 refuted false after none of 9",
      "of 13 applied true after of 6 of 13",
      "of 1 corrected false after of 13 of 1",
      "of 2 stale false after none of 2",
      "of 3 applied false after of 1 of 3",
    ]);
  });

  it("lock their orders in one sequence, so that no two batches wait for each other", async () => {
    const [one, other] = ["R1", "R2"].map((reference) => ({ reference, updatedAt: at(1) }));
    await applyReads(read(10, [one!, other!]));
    const lock = "select from mirror.orders where reference = $1 for update";
    const holder = await pool.connect();
    await holder.query("begin");
    await holder.query(lock, ["R1"]);
    const applying = applyReads(read(20, [other!, one!]));
    try {
      await untilWaiting(pool);
      expect((await pool.query(`${lock} nowait`, ["R2"])).rowCount).toBe(1);
    } finally {
      holder.release(true);
    }
    await applying;
  });
});

it("calls a true event that lost to a batch beside it stale: only a read refutes", async () => {
  await applyEvents(await put("first", 1));
  const losing = [await put("two", 2), await put("three", 3), await put("four", 4)].flat();
  const decisions = await beside(
    pool,
    (client) =>
      client.query("update mirror.orders set version = $1, observed_at = $1", [parseInstant(at(9))]),
    () => applyEvents(losing),
  );
  expect(decisions.map(({ verdict }) => verdict)).toEqual(["stale", "stale", "stale"]);
});

it("twelve workers end at the mirror of a sorted replay, and refute none of 5,000 true events", async () => {
  const orders = 400;
  const events = Array.from({ length: 5_000 }, (_, index) => {
    const step = Math.floor(index / orders);
    const order = { reference: `R${index % orders}`, updatedAt: at(step), more: { step } };
    return { eventId: `evt_${index}`, body: makeEventBody({ id: `evt_${index}`, order }) };
  });
  const repeated = events.slice(0, 1_500).map((event, index) => ({ ...event, eventId: `again_${index}` }));
  const shuffled = [...events, ...repeated];
  shuffle(shuffled, makeRandom(7));
  const seqs = await putIntoInbox(pool, shuffled);
  const batches = Array.from({ length: 130 }, (_, index) => seqs.slice(index * 50, index * 50 + 50));
  const worker = async () => {
    for (let batch = batches.pop(); batch; batch = batches.pop()) await applyEvents(batch);
  };
  await Promise.all(Array.from({ length: 12 }, worker));
  const actual = await select("reference, (raw ->> 'step')::int as step from mirror.orders");
  expect(new Map(actual.map(({ reference, step }) => [reference, step]))).toEqual(
    new Map(Array.from({ length: orders }, (_, n) => [`R${n}`, Math.floor((5_000 - 1 - n) / orders)])),
  );
  expect(await select("distinct verdict from mirror.history order by verdict")).toEqual(
    ["applied", "duplicate", "stale"].map((verdict) => ({ verdict })),
  );
  expect(await count("pending")).toBe(0);
});
