import { beforeAll, describe, expect, it } from "vitest";
import { missAgain } from "../../support/mirror/liveApply.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { makeRandom } from "../../support/faults/random.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { at, makeEventBody, putIntoInbox, type OrderSketch } from "../../support/mirror/orders.ts";

/** What a provider knows of its orders, against what `reporting` says of them. */
const ORDERS = 300;
/**
 * The next read shows a state that lasts longer, also when its event was lost. Shorter ones may be missed altogether: of the
 * documented statuses reports can tell that one is missing. A status that the provider does not document, and the one before
 * it, last longer here, because nothing could tell.
 */
const POLL_SECONDS = 30;
const LOST = 0.1;

const { pool, apply, read, show } = await openLiveMirror();
const random = makeRandom(20_261_128);
const between = (least: number, most: number) => Math.round((least + random() * (most - least)) * 1e3) / 1e3;
const happens = (share: number) => random() < share;

interface Step {
  readonly status: string;
  /** Seconds since the start. */
  readonly from: number;
}
interface Life {
  readonly reference: string;
  readonly branch: string;
  readonly steps: readonly Step[];
  readonly isGone: boolean;
}

/** The statuses of an order in sequence; some that nobody listed come in between, and documented ones come again. */
function chooseStatuses(): string[] {
  const statuses = ["created"];
  if (happens(0.3)) statuses.push("on hold", "created");
  if (happens(0.2)) statuses.push("on hold", "created");
  statuses.push("arrived_for_pickup");
  if (happens(0.2)) statuses.push("Wartet auf Küche", "arrived_for_pickup");
  statuses.push("picked_up");
  if (happens(0.1)) statuses.push("rerouted ✈");
  statuses.push("arrived_for_delivery", "delivered");
  const end = Math.floor(random() * statuses.length);
  if (happens(0.2) && statuses[end] !== "delivered") return [...statuses.slice(0, end + 1), "cancelled"];
  return happens(0.3) ? statuses.slice(0, end + 1) : statuses;
}

const DOCUMENTED = ["created", "arrived_for_pickup", "picked_up", "arrived_for_delivery", "cancelled"];

function live(number: number): Life {
  let from = between(0, 300);
  const steps = chooseStatuses().map((status, index, statuses): Step => {
    const step = { status, from };
    const canBeMissed = [status, statuses[index + 1] ?? status].every((one) => DOCUMENTED.includes(one));
    from += between(canBeMissed ? 1 : POLL_SECONDS + 1, 90);
    return step;
  });
  return { reference: `R${number}`, branch: `b${number % 3}`, steps, isGone: happens(0.05) };
}

const lives = Array.from({ length: ORDERS }, (_, number) => live(number));
const enteredAt = ({ steps }: Life, status: string) =>
  steps.find((step) => step.status === status)?.from ?? null;

function sketch(life: Life, { status, from }: Step): OrderSketch {
  const actual = (other: string) => {
    const then = enteredAt(life, other);
    return then !== null && then <= from ? at(then) : null;
  };
  const more = {
    realPickupTime: actual("picked_up"),
    realDeliveryTime: actual("delivered"),
    branch: { id: life.branch },
  };
  return { reference: life.reference, status, updatedAt: at(from), more };
}

const changes = lives.flatMap((life) => life.steps.map((step) => ({ life, step, isLost: happens(LOST) })));
/** Changes that an event should have announced, and that a read found. */
let found = 0;
const END = Math.max(...changes.map(({ step }) => step.from)) + 2 * POLL_SECONDS;

async function happenUntil(second: number): Promise<void> {
  const news = changes.filter(({ step }) => step.from > second - POLL_SECONDS && step.from <= second);
  const events = news
    .filter(({ isLost }) => !isLost)
    .toSorted((left, right) => left.step.from - right.step.from)
    .map(({ life, step }) => {
      const eventId = `${life.reference} ${step.from}`;
      return { eventId, body: makeEventBody({ id: eventId, order: sketch(life, step) }) };
    });
  if (events.length > 0) await apply.applyEvents(await putIntoInbox(pool, events));
  const current = news.filter(
    ({ life, step }) => life.steps.findLast(({ from }) => from <= second)?.from === step.from,
  );
  found += current.filter(({ life, step, isLost }) => isLost && step !== life.steps[0]).length;
  await show(
    parseInstant(at(second + 1)),
    current.map(({ life, step }) => sketch(life, step)),
    { marginSeconds: 0 },
  );
}

beforeAll(async () => {
  await pool.query("update mirror.sources set created_at = '2020-01-01'");
  for (let second = 0; second < END; second += POLL_SECONDS) await happenUntil(second);
  for (const { reference } of lives.filter(({ isGone }) => isGone)) {
    const requestedAt = parseInstant(at(END + 1_000));
    await missAgain(pool, { sourceId: "live", reference, horizon: requestedAt, requestedAt });
  }
});

const present = lives.filter(({ isGone }) => !isGone);
const statusOf = ({ steps }: Life) => steps.at(-1)!.status;
const isOpen = (life: Life) => !["cancelled", "delivered"].includes(statusOf(life));

it("counts the orders that the provider has, open and not", async () => {
  const [counted] = await read(
    "select count(*)::int as orders, (count(*) filter (where is_open))::int as open from reporting.orders",
  );
  expect(counted).toEqual({ orders: present.length, open: present.filter(isOpen).length });
  expect(
    await read("select reference from reporting.gone_orders order by length(reference), reference"),
  ).toEqual(lives.filter(({ isGone }) => isGone).map(({ reference }) => ({ reference })));
  for (const view of ["order_facts", "order_timeline", "orders_as_of(now())"])
    expect(await read(`select count(distinct reference)::int as orders from reporting.${view}`)).toEqual([
      { orders: present.length },
    ]);
});

it("tells which orders were cancelled after their pickup", async () => {
  const rows = await read(
    `select reference from reporting.order_facts where cancelled_at > picked_up_at order by length(reference), reference`,
  );
  const truth = present.filter(
    (life) => statusOf(life) === "cancelled" && enteredAt(life, "picked_up") !== null,
  );
  expect(truth.length).toBeGreaterThan(5);
  expect(rows.map(({ reference }) => reference)).toEqual(truth.map(({ reference }) => reference));
});

it("counts the changes that no event announced", async () => {
  const [counted] = await read("select count(*)::int as found from mirror.unannounced_changes");
  expect(found).toBeGreaterThan(50);
  expect(counted).toEqual({ found });
});

describe.each(["created", "arrived_for_pickup", "picked_up", "arrived_for_delivery"])(
  "the status %s",
  (status) => {
    it("has the duration that the provider knows, or none", async () => {
      const rows = await read(`select reference, ${status}_seconds as seconds from reporting.order_facts`);
      const seconds = new Map(
        rows.map(({ reference, seconds: value }) => [reference, value as number | null]),
      );
      const differing: string[] = [];
      let [known, ended] = [0, 0];
      for (const life of present) {
        const first = life.steps.findIndex((step) => step.status === status);
        const next = life.steps[first + 1];
        const truth = first === -1 || next === undefined ? null : next.from - life.steps[first]!.from;
        const told = seconds.get(life.reference) ?? null;
        ended += Number(truth !== null);
        known += Number(told !== null);
        if (told !== null && Math.abs(told - (truth ?? Infinity)) > 1e-6)
          differing.push(
            `${life.reference}: ${told} for ${truth}, ${life.steps.map((step) => step.status).join(" > ")}`,
          );
      }
      expect(differing).toEqual([]);
      expect(known).toBeGreaterThan(0.6 * ended);
    });
  },
);

it("shows the steps of the orders of which every change was announced, one after the other", async () => {
  const rows = await read(
    `select reference, json_agg(json_build_array(step, status, round(1e6 * extract(epoch from entered_at - $1))::text,
       round(1e6 * duration_seconds)::text, is_current) order by step) as steps
     from reporting.order_timeline group by reference`,
    [at(0)],
  );
  const told = new Map(rows.map(({ reference, steps }) => [reference, steps]));
  const micros = (seconds: number) => String(Math.round(seconds * 1e6));
  const announced = present.filter(
    (life) => !changes.some((change) => change.life === life && change.isLost),
  );
  expect(announced.length).toBeGreaterThan(100);
  for (const { reference, steps } of announced)
    expect([reference, told.get(reference)]).toEqual([
      reference,
      steps.map(({ status, from }, index) => {
        const next = steps[index + 1];
        return [index + 1, status, micros(from), next ? micros(next.from - from) : null, next === undefined];
      }),
    ]);
});

it("has no duration below zero, and each order under the number of the business", async () => {
  expect(await read("select * from reporting.order_timeline where duration_seconds < 0")).toEqual([]);
  expect(
    await read("select reference from reporting.order_facts where external_order_id <> 'shop-' || reference"),
  ).toEqual([]);
});
