import { formatInstant, NANOS_PER_SECOND } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { OPEN_STATUSES } from "../../domain/order/order.ts";
import type { Facts } from "../../health/condition.ts";
import { judgeFreshness } from "../../health/freshness.ts";
import {
  renderAlert,
  renderFacts,
  renderGood,
  renderMinute,
  renderName,
  renderTable,
  renderWarning,
} from "../../html/parts.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { describeSpan, orderAddress } from "../phrases.ts";
import type { Delivery, TimelineEntry } from "./order.sql.ts";
import { LATE_SECONDS } from "./orderList.sql.ts";
import type { ListedOrder, ListSort } from "./orderList.sql.ts";

// How a delivery is shown: as a row of the list of orders or of its file, and at the head of its own page.

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

interface Column {
  readonly title: string;
  /** The list can be sorted by it. */
  readonly sort?: ListSort;
  readonly show: (order: ListedOrder, moment: Moment) => Html | string;
  /** As a cell of a file, with times in ISO 8601 and delays in seconds; null: empty. */
  readonly write: (order: ListedOrder, moment: Moment) => string | number | null;
}

const time = (title: string, read: (order: ListedOrder) => Instant | null, sort?: ListSort): Column => ({
  title,
  ...(sort === undefined ? {} : { sort }),
  show: (order) => renderMinute(read(order)),
  write: (order) => {
    const instant = read(order);
    return instant === null ? null : formatInstant(instant);
  },
});

const text = (title: string, read: (order: ListedOrder) => string | null): Column => ({
  title,
  show: (order) => {
    const value = read(order);
    return value === null ? html`<span class="dim">–</span>` : renderName(value);
  },
  write: read,
});

/** The columns of the list of orders; a file has all of them. */
const ORDER_LIST_COLUMNS = {
  order: {
    title: "Order",
    show: (order) =>
      html`<a class="name" href="${orderAddress(order)}" data-copy="${order.reference}"
        >${renderName(order.reference)}</a
      >`,
    write: ({ reference }) => reference,
  },
  external: text("External id", ({ externalOrderId }) => externalOrderId),
  status: {
    title: "Status",
    show: ({ status, corrected }) =>
      html`${renderStatus(status)}${corrected ? html` <span class="badge">Corrected</span>` : ""}`,
    write: ({ status }) => status,
  },
  branch: text("Branch", ({ branch }) => branch),
  fleet: text("Fleet", ({ fleetName }) => fleetName),
  pickup: time("Planned pickup", ({ pickupTime }) => pickupTime, "pickup"),
  picked: time("Picked up", ({ realPickupTime }) => realPickupTime),
  delivery: time("Planned delivery", ({ deliveryTime }) => deliveryTime, "delivery"),
  delivered: time("Delivered", ({ realDeliveryTime }) => realDeliveryTime),
  punctual: {
    title: "On time",
    show: (order, moment) => renderPunctuality(judgePunctuality(order, moment)),
    write: (order, moment) => {
      const punctuality = judgePunctuality(order, moment);
      return punctuality?.isConfirmed === true ? Math.round(punctuality.seconds) : null;
    },
  },
  verified: {
    title: "Verified",
    show: ({ settled }) => (settled ? renderGood("yes") : html`<span class="dim">not yet</span>`),
    write: ({ settled }) => String(settled),
  },
  source: text("Source", ({ sourceId }) => sourceId),
  updated: time("Updated", ({ updatedAt }) => updatedAt, "updated"),
  seen: time("First seen", ({ firstSeenAt }) => firstSeenAt, "seen"),
} satisfies Readonly<Record<string, Column>>;

export type ColumnName = keyof typeof ORDER_LIST_COLUMNS;
export const COLUMN_NAMES = Object.keys(ORDER_LIST_COLUMNS) as ColumnName[];
/** On the page. */
export const COLUMNS_SHOWN: readonly ColumnName[] = [
  "order",
  "external",
  "status",
  "branch",
  "fleet",
  "delivery",
  "delivered",
  "punctual",
  "verified",
  "updated",
];

/** A column by its name, with all that a column may have. */
export function findColumn(name: ColumnName): Column {
  return ORDER_LIST_COLUMNS[name];
}

/** A status in words: picked_up is "Picked up". */
export function describeStatus(status: string): string {
  const words = status.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** A status in words and colour. */
function renderStatus(status: string): Html {
  return html`<span class="badge status ${STATUS_LOOK[status] ?? "other"}">${describeStatus(status)}</span>`;
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
  const minutes = whole === 0 ? "less than a minute" : describeSpan(whole).replace(/ 0\u00a0s$/, "");
  if (!isConfirmed) return html`overdue ${minutes}, not confirmed`;
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
        <span class="step">${describeStatus(step)}</span>
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
