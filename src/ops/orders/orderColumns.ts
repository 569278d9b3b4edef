import { formatInstant, NANOS_PER_SECOND } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { OPEN_STATUSES } from "../../domain/order/order.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { describeSpan, orderAddress } from "../overview/phrases.ts";
import { renderGood, renderMinute, renderWarning } from "../../html/marks.ts";
import { LATE_SECONDS } from "./orderList.sql.ts";
import type { ListedOrder, ListSort } from "./orderList.sql.ts";

interface Column {
  readonly title: string;
  /** The list can be sorted by it. */
  readonly sort?: ListSort;
  readonly show: (order: ListedOrder, now: Instant) => Html | string;
  /** As a cell of a file, with times in ISO 8601 and delays in seconds; null: empty. */
  readonly write: (order: ListedOrder, now: Instant) => string | number | null;
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
  show: (order) => read(order) ?? html`<span class="dim">–</span>`,
  write: read,
});

/** The columns that the list of orders can have. */
export const ORDER_LIST_COLUMNS = {
  order: {
    title: "Order",
    show: (order) => html`<a class="name" href="${orderAddress(order)}">${order.reference}</a>`,
    write: ({ reference }) => reference,
  },
  external: text("External id", ({ externalOrderId }) => externalOrderId),
  status: {
    title: "Status",
    show: ({ status, corrected }) =>
      html`<span class="status">${describeStatus(status)}</span
        >${corrected ? html` <span class="badge">corrected</span>` : ""}`,
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
    show: (order, now) => renderPunctuality(deliveryDelay(order, now)),
    write: (order, now) => {
      const seconds = deliveryDelay(order, now);
      return seconds === null ? null : Math.round(seconds);
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
/** Without a choice. */
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

type Delivery = Pick<ListedOrder, "status" | "deliveryTime" | "realDeliveryTime">;

/**
 * Seconds from the planned to the actual delivery, negative when early; of an open order whose time has passed, up to
 * `now`. Null if there is nothing to compare.
 */
export function deliveryDelay(
  { status, deliveryTime, realDeliveryTime }: Delivery,
  now: Instant,
): number | null {
  if (deliveryTime === null) return null;
  const isOpen = realDeliveryTime === null && OPEN_STATUSES.includes(status);
  const end = realDeliveryTime ?? (isOpen && now > deliveryTime ? now : null);
  return end === null ? null : Number(end - deliveryTime) / Number(NANOS_PER_SECOND);
}

/** "on time", "12 min late", "8 min early". */
export function renderPunctuality(seconds: number | null): Html {
  if (seconds === null) return html`<span class="dim">–</span>`;
  const minutes = describeSpan(Math.floor(Math.abs(seconds) / 60) * 60).replace(/ 0\u00a0s$/, "");
  if (seconds >= LATE_SECONDS) return renderWarning(`${minutes} late`);
  return Math.abs(seconds) < LATE_SECONDS ? renderGood("on time") : html`${minutes} early`;
}
