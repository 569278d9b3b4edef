import { renderAction } from "../../html/action.ts";
import { renderFacts } from "../../html/fieldList.ts";
import { renderInstant } from "../../html/marks.ts";
import { numberColumn, renderTable } from "../../html/table.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { nextStatus } from "../api/orderRow.ts";
import type { OrderRow } from "../api/orderRow.ts";
import type { ControlDeps } from "../control/control.ts";
import { readEvents, readNewestOrders } from "../control/control.sql.ts";
import type { EventView } from "../control/control.sql.ts";
import type { JournalEntry } from "../control/journal.ts";
import { modeOf } from "../world/directory.ts";
import { readOverview } from "./overview.ts";
import { renderDashboard, renderFaults, renderScenarios, renderWorld } from "./pageForms.ts";

const ORGANIZATION = "sandbox";
const ORDERS_SHOWN = 15;
const EVENTS_SHOWN = 15;
const REQUESTS_SHOWN = 15;

type MirrorPageOf = ControlDeps["mirrorPageOf"];

/** The whole control page. It has no script: every button is a form. */
export async function renderPage(deps: ControlDeps, { notice }: { notice: string | null }): Promise<string> {
  const { state, journal, mirrorPageOf } = deps;
  const overview = await readOverview(deps);
  const orders = await readNewestOrders(state.pool, ORGANIZATION, ORDERS_SHOWN);
  const events = await readEvents(state.pool, { reference: null, limit: EVENTS_SHOWN });
  const facts = { Seed: overview.seed, Clock: overview.clock.kind, Now: renderInstant(state.clock.now()) };
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="robots" content="noindex" />
        <title>Sandbox · order-mirror</title>
        <link rel="stylesheet" href="/_sandbox/style.css" />
      </head>
      <body>
        <a class="skip" href="#main">Skip to content</a>
        <header class="top">
          <span class="name">order-mirror sandbox</span>
          <span class="who"><a href="/_sandbox/help">Control interface</a></span>
        </header>
        <main id="main">
          <p class="as-of">Times in UTC</p>
          <h1>Sandbox: a fake delivery provider</h1>
          <p class="dim">Nothing here reaches a courier.</p>
          ${notice === null ? null : html`<p class="verdict-line neither" role="status">${notice}</p>`}
          ${renderFacts(facts)}
          <div class="halves">${renderWorld(overview)} ${renderScenarios()}</div>
          ${renderOrders(orders, mirrorPageOf)} ${renderFaults(state.faults.current())}
          ${renderDashboard(overview)} ${renderEvents(events, mirrorPageOf)}
          ${renderRequests(journal.entries().slice(0, REQUESTS_SHOWN))}
        </main>
      </body>
    </html> `.markup;
}

function renderOrders(orders: readonly OrderRow[], mirrorPageOf: MirrorPageOf): Html {
  const title = "Latest changed orders";
  const rows = orders.map((row) => [
    renderReference(row, mirrorPageOf),
    modeOf(row.livemode),
    html`<span class="badge">${row.status}</span>`,
    html`<span class="mono">${row.externalOrderId}</span>`,
    renderInstant(row.updatedAt),
    renderMoves(row),
  ]);
  const columns = ["Reference", "Mode", "Status", "External id", "Updated", "Next step"];
  return html`<h2>${title} <span class="dim">of ${ORGANIZATION}</span></h2>
    ${rows.length === 0 ? html`<p class="empty">No orders yet: order some above.</p>` : renderTable({ title, columns, rows, cards: true })}`;
}

/** An order of the business that the mirror follows links to its page there. */
function renderReference(
  order: { readonly organizationId: string; readonly livemode: boolean; readonly reference: string },
  mirrorPageOf: MirrorPageOf,
): Html {
  const { organizationId, reference } = order;
  if (mirrorPageOf === undefined || organizationId !== ORGANIZATION)
    return html`<span class="mono">${reference}</span>`;
  const address = mirrorPageOf({ mode: modeOf(order.livemode), reference });
  return html`<a class="name" href="${address}" title="${reference} in the mirror">${reference}</a>`;
}

function renderMoves(row: OrderRow): Html {
  const next = nextStatus(row.status);
  if (!next) return html`<span class="dim">–</span>`;
  const path = `/_sandbox/orders/${encodeURIComponent(row.reference)}`;
  return html`<div class="actions">
    ${renderAction(`${path}/step`, next)}
    ${renderAction(`${path}/step`, `${next}, event lost`, { sent: { lose: "true" } })}
    ${renderAction(`${path}/cancel`, "Fleet cancels")}
  </div>`;
}

function renderEvents(events: readonly EventView[], mirrorPageOf: MirrorPageOf): Html {
  const rows = events.map((event) => [
    html`<span class="mono">${event.eventId}</span>`,
    event.type,
    renderReference(event, mirrorPageOf),
    renderInstant(event.created),
    renderDeliveries(event),
    renderAction(`/_sandbox/events/${event.eventId}/resend`, "Resend"),
  ]);
  const columns = ["Event", "Type", "Order", "Created", "Deliveries", "Action"];
  return html`<h2>Events</h2>
    ${rows.length === 0 ? html`<p class="empty">No events yet: each change of an order makes one.</p>` : renderTable({ title: "Events", columns, rows, cards: true })}`;
}

const NOT_SENT: Readonly<Record<string, string>> = {
  lost: "lost on purpose",
  no_plan: "not sent: the plan has no webhooks",
  no_endpoint: "not sent: no endpoint",
};

function renderDeliveries(event: EventView): Html {
  if (event.deliveries.length === 0) {
    return html`<span class="warn">${NOT_SENT[event.sentAs] ?? "none"}</span>`;
  }
  return html`<ul class="plain">
    ${event.deliveries.map(({ state, reason, attempts, status, error }) => {
      const outcome = status ?? error ?? "";
      const look = state === "delivered" ? "good" : "alert";
      const again = reason === "event" ? "" : ` (${reason})`;
      return html`<li class="${look}">${state}${again} · ${attempts} × · ${outcome}</li>`;
    })}
  </ul>`;
}

function renderRequests(requests: readonly JournalEntry[]): Html {
  const rows = requests.map((entry) => [
    renderInstant(entry.at),
    `${entry.organizationId ?? "unknown"} ${entry.mode}`,
    html`<span class="mono">${entry.method} ${entry.path}${entry.query}</span>`,
    html`<span class="${entry.status >= 200 && entry.status < 300 ? "good" : "alert"}"
      >${entry.status === 0 ? "closed" : entry.status} ${entry.code}</span
    >`,
    String(entry.durationMs),
    entry.faults.join(", ") || "–",
  ]);
  const columns = ["At", "Who", "Request", "Answer", numberColumn("ms"), "Faults"];
  return html`<h2>Requests</h2>
    ${rows.length === 0 ? html`<p class="empty">No requests yet: those to <code>/v1</code> are listed here.</p>` : renderTable({ title: "Requests", columns, rows, cards: true })}`;
}
