import type { Instant } from "../../domain/order/instant.ts";
import { OPEN_STATUSES } from "../../domain/order/order.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import {
  renderAlert,
  renderFacts,
  renderGood,
  renderMinute,
  renderName,
  renderTable,
  renderWarning,
} from "../../html/parts.ts";
import type { Delivery, TimelineEntry } from "./order.sql.ts";
import { comparePlan, describeStatus, renderPunctuality } from "./orderColumns.ts";
import type { Moment } from "./orderColumns.ts";

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
