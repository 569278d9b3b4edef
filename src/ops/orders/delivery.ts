import { describeSpan } from "../../domain/duration.ts";
import { formatInstant, NANOS_PER_SECOND, type Instant } from "../../domain/order/instant.ts";
import { OPEN_STATUSES } from "../../domain/order/order.ts";
import type { Facts } from "../../health/conditions/conditions.ts";
import { judgeFreshness } from "../../health/freshness.ts";
import { orderAddress } from "../../health/pageAddresses.ts";
import { html, type Html } from "../../html/html.ts";
import {
  renderAlert,
  renderFacts,
  renderGood,
  renderMinute,
  renderName,
  renderTable,
  renderWarning,
} from "../../html/parts.ts";
import { LATE_SECONDS, type ListedOrder, type ListSort } from "../../orders/orderList.sql.ts";
import type { Delivery, TimelineEntry } from "../../orders/orderStory.sql.ts";
import { describeWord } from "../phrases.ts";

// One order: what is known of it, and how its delivery is shown, as a row of the list or of its file, and at the head of
// its own page.

/** What the times of an order are compared with. */
export interface Moment {
  readonly now: Instant;
  /** Up to when each source was read: what should have happened since may have happened. Absent: never read. */
  readonly readUpTo: ReadonlyMap<string, Instant>;
}

/** The present, as the pages and `status` know it. */
export function readMoment({ now, sources }: Pick<Facts, "now" | "sources">): Moment {
  const reached = sources.map((source) => [source.sourceId, judgeFreshness(source).upTo] as const);
  return { now, readUpTo: new Map(reached.flatMap(([id, upTo]) => (upTo === null ? [] : [[id, upTo]]))) };
}

export interface Column {
  readonly title: string;
  /** On the page; absent: only in the file. A phone's card labels the value with it, or leaves out a `minor` one. */
  readonly card?: "" | "minor" | "Updated";
  /** The list can be sorted by it. */
  readonly sort?: ListSort;
  readonly show: (order: ListedOrder, moment: Moment) => Html | string;
  /** As a cell of a file, with times in ISO 8601 and delays in seconds; null: empty. */
  readonly write: (order: ListedOrder, moment: Moment) => string | number | null;
}

type Place = Pick<Column, "card" | "sort">;

const time = (title: string, read: (order: ListedOrder) => Instant | null, place: Place = {}): Column => ({
  title,
  ...place,
  show: (order) => renderMinute(read(order)),
  write: (order) => {
    const instant = read(order);
    return instant === null ? null : formatInstant(instant);
  },
});

const text = (title: string, read: (order: ListedOrder) => string | null, place: Place = {}): Column => ({
  title,
  ...place,
  show: (order) => {
    const value = read(order);
    return value === null ? html`<span class="dim">–</span>` : renderName(value);
  },
  write: read,
});

/** The columns of the list of orders; a file has all of them. */
export const ORDER_LIST_COLUMNS: readonly Column[] = [
  {
    title: "Order",
    card: "",
    show: (order) =>
      html`<a class="name" href="${orderAddress(order)}" data-copy="${order.reference}"
        >${renderName(order.reference)}</a
      >`,
    write: ({ reference }) => reference,
  },
  text("External id", ({ externalOrderId }) => externalOrderId, { card: "minor" }),
  {
    title: "Status",
    card: "",
    show: ({ status, corrected }) =>
      html`${renderStatus(status)}${corrected ? html` <span class="badge">Corrected</span>` : ""}`,
    write: ({ status }) => status,
  },
  text("Branch", ({ branch }) => branch, { card: "" }),
  text("Fleet", ({ fleetName }) => fleetName, { card: "minor" }),
  time("Planned pickup", ({ pickupTime }) => pickupTime),
  time("Picked up", ({ realPickupTime }) => realPickupTime),
  time("Planned delivery", ({ deliveryTime }) => deliveryTime, { card: "", sort: "delivery" }),
  time("Delivered", ({ realDeliveryTime }) => realDeliveryTime, { card: "minor" }),
  {
    title: "On time",
    card: "",
    show: (order, moment) => renderPunctuality(judgePunctuality(order, moment)),
    write: (order, moment) => {
      const punctuality = judgePunctuality(order, moment);
      return punctuality?.isConfirmed === true ? Math.round(punctuality.seconds) : null;
    },
  },
  {
    title: "Verified",
    card: "minor",
    show: ({ settled }) => (settled ? renderGood("yes") : html`<span class="dim">not yet</span>`),
    write: ({ settled }) => String(settled),
  },
  text("Source", ({ sourceId }) => sourceId),
  time("Updated", ({ updatedAt }) => updatedAt, { card: "Updated", sort: "updated" }),
  time("First seen", ({ firstSeenAt }) => firstSeenAt),
];

/** A status in words and colour. */
function renderStatus(status: string): Html {
  return html`<span class="badge status ${STATUS_LOOK[status] ?? "other"}">${describeWord(status)}</span>`;
}

const STATUS_LOOK: Readonly<Record<string, string>> = {
  created: "begun",
  arrived_for_pickup: "moving",
  picked_up: "moving",
  arrived_for_delivery: "moving",
  assigned: "begun",
  delivered: "done",
  cancelled: "ended",
};

interface Planned {
  readonly sourceId: string;
  readonly status: string;
  readonly goneAt?: Instant | null;
  readonly planned: Instant | null;
  readonly actual: Instant | null;
}

/** How an event of an order compares with its plan. */
interface Punctuality {
  /** From the planned time to the actual one, negative when early; while it has not happened, to now. */
  readonly seconds: number;
  readonly hasHappened: boolean;
  /** The provider was asked after the planned time. */
  readonly isConfirmed: boolean;
}

/** Null if there is nothing to compare: not due yet, or an order that ended otherwise or is gone. @internal */
export function comparePlan(
  { sourceId, status, goneAt, planned, actual }: Planned,
  moment: Moment,
): Punctuality | null {
  if (planned === null || (goneAt ?? null) !== null) return null;
  const seconds = (end: Instant) => Number(end - planned) / Number(NANOS_PER_SECOND);
  if (actual !== null) return { seconds: seconds(actual), hasHappened: true, isConfirmed: true };
  if (!OPEN_STATUSES.includes(status) || moment.now <= planned) return null;
  const isConfirmed = (moment.readUpTo.get(sourceId) ?? 0n) > planned;
  return { seconds: seconds(moment.now), hasHappened: false, isConfirmed };
}

const judgePunctuality = (order: ListedOrder, moment: Moment) =>
  comparePlan({ ...order, planned: order.deliveryTime, actual: order.realDeliveryTime }, moment);

/** "on time", "12 min late", "8 min early"; of what has not happened "overdue 4 min". @internal */
export function renderPunctuality(punctuality: Punctuality | null): Html {
  if (punctuality === null) return html`<span class="dim">–</span>`;
  const { seconds, hasHappened, isConfirmed } = punctuality;
  const whole = Math.floor(Math.abs(seconds) / 60) * 60;
  const minutes = whole === 0 ? "under 1\u00a0min" : describeSpan(whole).replace(/ 0\u00a0s$/, "");
  if (!isConfirmed)
    return html`overdue ${minutes},<br />
      <span class="dim">not confirmed</span>`;
  const isLate = seconds >= LATE_SECONDS;
  if (!hasHappened) return isLate ? renderWarning(`overdue ${minutes}`) : html`overdue ${minutes}`;
  if (isLate) return renderWarning(`${minutes} late`);
  return seconds > -LATE_SECONDS ? renderGood("on time") : html`${minutes} early`;
}

/** Of an order that is under way: how it normally ends. */
const NORMAL_END = "delivered";
const SHOWN_STATES = new Set<TimelineEntry["verdict"]>(["applied", "corrected", "stale"]);

interface Known {
  readonly delivery: Delivery;
  readonly timeline: readonly TimelineEntry[];
  readonly moment: Moment;
}

/** What people of the business want to know first: how far the delivery is, whether it is in time, and who does it. */
export function renderDelivery({ delivery, timeline, moment }: Known): Html {
  const { branch, fleetName, goneAt } = delivery;
  const gone =
    goneAt !== null &&
    html`<p>
      ${renderAlert("The provider no longer has this order")}, found ${renderMinute(goneAt)}. It is not served
      any more; below is its last known state.
    </p>`;
  const name = (text: string | null) => (text === null ? "–" : renderName(text));
  return html`${gone}${renderTrack(delivery, timeline)}
  ${goneAt === null && html`<p class="verified">${renderVerification(delivery, timeline)}</p>`}
  ${renderTimes(delivery, moment)}
  ${renderFacts({
    Branch: name(branch),
    Fleet: name(fleetName),
    "External id": name(delivery.externalOrderId),
    Source: delivery.sourceId,
    Updated: renderMinute(delivery.updatedAt),
    "First seen by": delivery.firstSeenVia,
    "States applied": String(delivery.revision),
  })}`;
}

/** The statuses of a delivery, with the time at which each began. */
function renderTrack({ status, goneAt }: Delivery, timeline: readonly TimelineEntry[]): Html {
  const began = new Map<string, Instant>();
  for (const { status: each, version, verdict, refuted } of timeline) {
    if (each === null || version === null || refuted || !SHOWN_STATES.has(verdict)) continue;
    const known = began.get(each);
    if (known === undefined || version < known) began.set(each, version);
  }
  const end = OPEN_STATUSES.includes(status) ? NORMAL_END : status;
  const steps = [...OPEN_STATUSES, end];
  const current = steps.indexOf(status);
  return html`<ol class="track" aria-label="Status">
    ${steps.map((step, index) => {
      const state = index === current ? "current" : index < current ? "past" : "ahead";
      const at = began.get(step);
      const said = state === "ahead" && goneAt === null ? "not yet" : "";
      return html`<li class="${state} ${step}" ${state === "current" && html`aria-current="step"`}>
        <span class="step">${describeWord(step)}</span>
        <span class="dim">${at === undefined ? said : renderMinute(at)}</span>
      </li> `;
    })}
  </ol>`;
}

function renderVerification({ settled, observedAt }: Delivery, timeline: readonly TimelineEntry[]): Html {
  const at = renderMinute(observedAt);
  if (settled) return html`${renderGood("Verified with the provider")} at ${at}`;
  const via = timeline.findLast(({ verdict }) => verdict === "applied" || verdict === "corrected")?.via;
  const by = via === "webhook" ? "webhook" : "a read";
  return html`${renderWarning("Not yet verified")}: reported by ${by} at ${at}; not yet checked by a later
  read.`;
}

function renderTimes(delivery: Delivery, moment: Moment): Html {
  const { pickupTime, realPickupTime, deliveryTime, realDeliveryTime } = delivery;
  const row = (name: string, planned: Instant | null, actual: Instant | null) => [
    html`<strong>${name}</strong>`,
    renderMinute(planned),
    renderMinute(actual),
    renderPunctuality(comparePlan({ ...delivery, planned, actual }, moment)),
  ];
  return html`<div class="times">
    ${renderTable({
      title: "Times",
      columns: ["Step", "Planned", "Actual", "Difference"],
      cards: true,
      rows: [row("Pickup", pickupTime, realPickupTime), row("Delivery", deliveryTime, realDeliveryTime)],
    })}
  </div>`;
}
