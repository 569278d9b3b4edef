import { describeSpan, secondsSince } from "../../domain/duration.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { FINAL_STATUSES, OPEN_STATUSES } from "../../domain/order/order.ts";
import type { Facts } from "../../health/conditions/conditions.ts";
import { judgeFreshness, type Freshness } from "../../health/freshness.ts";
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

// One order: how its delivery is shown, as a row of the list and at the head of its own page.

/** Present that the times of an order are compared with. */
export interface Moment {
  readonly now: Instant;
  /** Reach of each source: what should have happened since may have happened. */
  readonly sources: ReadonlyMap<string, Freshness>;
}

/** The present, as the pages and `status` know it. */
export function readMoment({ now, sources }: Pick<Facts, "now" | "sources">): Moment {
  return { now, sources: new Map(sources.map((source) => [source.sourceId, judgeFreshness(source)])) };
}

/** A column of the list of orders. */
interface Column {
  readonly title: string;
  /** On a phone: what the value is labelled with, where it stands, or that a `minor` one is left out. */
  readonly card: "" | "for" | "delay" | "state" | "place" | "minor";
  /** The list can be sorted by it. */
  readonly sort?: ListSort;
  readonly show: (order: ListedOrder, moment: Moment) => Html | string;
}

const DASH = html`<span class="dim">–</span>`;

/** The columns of the list of orders; `isOfMany`: with the source, because its orders look like those of others. */
export const listColumns = (isOfMany: boolean): readonly Column[] => [
  {
    title: "Order",
    card: "",
    show: (order) =>
      html`<a class="name ref" href="${orderAddress(order)}" data-copy="${order.reference}"
        >${renderName(order.reference)}</a
      >`,
  },
  {
    title: "Status",
    card: "state",
    show: ({ status, settled, corrected }) =>
      html`<span class="status ${STATUS_LOOK[status] ?? ""}">${describeWord(status)}</span
        >${!settled && html` <span class="dim">not verified</span>`}${corrected && html` <span class="badge">Corrected</span>`}`,
  },
  {
    title: "Branch · fleet",
    card: "place",
    show: ({ branch, fleetName }) => {
      const names = [branch, fleetName].filter((name) => name !== null);
      return names.length === 0
        ? DASH
        : html`${names.map((name, at) => html`${at > 0 && " · "}${renderName(name)}`)}`;
    },
  },
  {
    title: "Planned",
    card: "for",
    sort: "delivery",
    show: ({ deliveryTime }) => renderMinute(deliveryTime),
  },
  {
    title: "Delay",
    card: "delay",
    show: (order, moment) => renderPunctuality(judgePunctuality(order, moment)),
  },
  {
    title: "External id",
    card: "minor",
    show: ({ externalOrderId }) => (externalOrderId === null ? DASH : renderName(externalOrderId)),
  },
  ...(isOfMany
    ? [{ title: "Source", card: "", show: ({ sourceId }: ListedOrder) => sourceId } as const]
    : []),
  { title: "Updated", card: "minor", sort: "updated", show: ({ updatedAt }) => renderMinute(updatedAt) },
];

/** Statuses that somebody should look for have a colour; the others are words. */
const STATUS_LOOK: Readonly<Record<string, string>> = { delivered: "done", cancelled: "ended" };

interface Planned {
  readonly sourceId: string;
  readonly status: string;
  readonly goneAt?: Instant | null;
  readonly planned: Instant | null;
  readonly actual: Instant | null;
}

/** Comparison of a pickup or a delivery with its plan, as far as the provider was read. */
interface Punctuality {
  /** From the planned time to the actual one, negative when early; while it has not happened, to the last read. */
  readonly seconds: number;
  readonly hasHappened: boolean;
  /** The last read, if it is so old that the event may have happened since; null: it says what is. */
  readonly unknownSince: Instant | null;
}

/**
 * Null if there is nothing to compare: not due yet as far as was read, or an order that ended otherwise or is gone.
 * @internal
 */
export function comparePlan(
  { sourceId, status, goneAt, planned, actual }: Planned,
  { now, sources }: Moment,
): Punctuality | null {
  if (planned === null || (goneAt ?? null) !== null) return null;
  const seconds = (end: Instant) => secondsSince(end, planned);
  if (actual !== null) return { seconds: seconds(actual), hasHappened: true, unknownSince: null };
  if (FINAL_STATUSES.includes(status) || now <= planned) return null;
  const { upTo, isOld } = sources.get(sourceId) ?? { upTo: null, isOld: true };
  const until = upTo ?? planned;
  const unknownSince = isOld ? until : null;
  if (until <= planned && unknownSince === null) return null;
  return { seconds: seconds(until), hasHappened: false, unknownSince };
}

const judgePunctuality = (order: ListedOrder, moment: Moment) =>
  comparePlan({ ...order, planned: order.deliveryTime, actual: order.realDeliveryTime }, moment);

/** "on time", "12 min late", "8 min early"; of what has not happened "4 min late" so far. @internal */
export function renderPunctuality(punctuality: Punctuality | null): Html {
  if (punctuality === null) return DASH;
  const { seconds, hasHappened, unknownSince } = punctuality;
  const whole = Math.floor(Math.abs(seconds) / 60) * 60;
  const minutes = whole === 0 ? "under 1\u00a0min" : describeSpan(whole).replace(/ 0\u00a0s$/, "");
  const isLate = seconds >= LATE_SECONDS;
  if (!hasHappened) {
    const at = unknownSince !== null && renderMinute(unknownSince);
    if (seconds <= 0) return html`<span class="dim">unknown since ${at}</span>`;
    const late = `${minutes} late`;
    const said = isLate ? renderWarning(late) : html`${late}`;
    return at === false ? said : html`${said} <span class="dim">at ${at}, unknown since</span>`;
  }
  if (isLate) return renderWarning(`${minutes} late`);
  return seconds > -LATE_SECONDS ? renderGood("on time") : html`${minutes} early`;
}

/** Normal end of an order that is under way. */
const NORMAL_END = "delivered";
const SHOWN_STATES = new Set<TimelineEntry["verdict"]>(["applied", "corrected", "stale"]);

interface Known {
  readonly delivery: Delivery;
  readonly timeline: readonly TimelineEntry[];
  readonly moment: Moment;
}

/**
 * Renders what people of the business want to know first: how far the delivery is, whether it is in time, and who does
 * it.
 */
export function renderDelivery({ delivery, timeline, moment }: Known): Html {
  const { branch, fleetName, goneAt } = delivery;
  const gone =
    goneAt !== null &&
    html`<p>
      ${renderAlert("The provider no longer has this order")}, found at ${renderMinute(goneAt)}. It is not
      served any more; below is its last known state.
    </p>`;
  const erased =
    delivery.erasedAt !== null &&
    html`<p>Personal data of this order was erased at ${renderMinute(delivery.erasedAt)}, and stays so.</p>`;
  const name = (text: string | null) => (text === null ? "–" : renderName(text));
  return html`${gone}${erased}${renderTrack(delivery, timeline)}
  ${goneAt === null && html`<p class="verified">${renderVerification(delivery, timeline)}</p>`}
  ${renderTimes(delivery, moment)}
  ${renderFacts({
    Branch: name(branch),
    Fleet: name(fleetName),
    "External id": name(delivery.externalOrderId),
    Source: delivery.sourceId,
    Updated: renderMinute(delivery.updatedAt),
  })}`;
}

/** Finds when each status began, as far as an observation showed it. */
function readBeginnings(timeline: readonly TimelineEntry[]): ReadonlyMap<string, Instant> {
  const began = new Map<string, Instant>();
  for (const { status, version, verdict, refuted } of timeline) {
    if (status === null || version === null || refuted || !SHOWN_STATES.has(verdict)) continue;
    const known = began.get(status);
    if (known === undefined || version < known) began.set(status, version);
  }
  return began;
}

/** Steps that no order reaches without its pickup. */
const AFTER_PICKUP = ["picked_up", "arrived_for_delivery"];

/**
 * The statuses of a delivery, with the time at which each began. Reached is what was seen or what the order itself
 * says; nothing follows from the order of the steps, because an order may end before any of them.
 */
function renderTrack(delivery: Delivery, timeline: readonly TimelineEntry[]): Html {
  const { status, goneAt, settled, realPickupTime } = delivery;
  const began = new Map(readBeginnings(timeline));
  if (realPickupTime !== null && !began.has("picked_up")) began.set("picked_up", realPickupTime);
  const isOver = FINAL_STATUSES.includes(status);
  const steps = [...OPEN_STATUSES, ...(isOver ? [] : OPEN_STATUSES.includes(status) ? [] : [status])];
  steps.push(isOver ? status : NORMAL_END);
  const current = steps.indexOf(status);
  const missing = (step: string) =>
    isOver && settled && realPickupTime === null && status !== NORMAL_END && AFTER_PICKUP.includes(step)
      ? "did not happen"
      : "not known";
  return html`<ol class="track" aria-label="Status">
    ${steps.map((step, index) => {
      const at = began.get(step);
      const isAhead = index > current && goneAt === null;
      const state = index === current ? "current" : at !== undefined ? "past" : isAhead ? "ahead" : "unseen";
      const words = state === "ahead" ? "not yet" : state === "unseen" ? missing(step) : "";
      return html`<li class="${state} ${step}" ${state === "current" && html`aria-current="step"`}>
        <span class="step">${describeWord(step)}</span>
        <span class="dim">${at === undefined ? words : renderMinute(at)}</span>
      </li> `;
    })}
  </ol>`;
}

function renderVerification({ settled, observedAt }: Delivery, timeline: readonly TimelineEntry[]): Html {
  const at = renderMinute(observedAt);
  if (settled) return html`${renderGood("Verified with the provider")} at ${at}`;
  const origin = timeline.findLast(({ verdict }) => verdict === "applied" || verdict === "corrected");
  const warning = renderWarning("Not yet verified");
  if (origin?.via !== "webhook")
    return html`${warning}: shown by a read at ${at}, too early to be final; a later one will settle it.`;
  const reported = html`${warning}: reported by webhook at ${renderMinute(origin.receivedAt ?? origin.seenAt)}`;
  // An event's observation is as old as the event; a later one is a read's.
  const isRead = origin.observedAt === null || observedAt > origin.observedAt;
  return isRead
    ? html`${reported}; a read at ${at} agrees, and a later one will settle it.`
    : html`${reported}; not yet checked by a read.`;
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
