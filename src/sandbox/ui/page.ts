import { formatInstant } from "../../domain/order/instant.ts";
import type { ControlDeps } from "../control/control.ts";
import { readEvents, readNewestOrders } from "../control/control.sql.ts";
import type { EventView } from "../control/control.sql.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import type { JournalEntry } from "../control/journal.ts";
import { nextStatus } from "../api/orderRow.ts";
import type { OrderRow } from "../api/orderRow.ts";
import { readOverview } from "./overview.ts";
import { renderDashboard, renderFaults, renderScenarios, renderWorld } from "./pageForms.ts";

const ORDERS_SHOWN = 15;
const EVENTS_SHOWN = 15;
const REQUESTS_SHOWN = 15;

/** The whole control page. It has no script: every button is a form. */
export async function renderPage(deps: ControlDeps, { notice }: { notice: string | null }): Promise<string> {
  const { state, journal } = deps;
  const overview = await readOverview(deps);
  const orders = await readNewestOrders(state.pool, "sandbox", ORDERS_SHOWN);
  const events = await readEvents(state.pool, { reference: null, limit: EVENTS_SHOWN });
  const page = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>Sandbox of order-mirror</title>
        <link rel="stylesheet" href="/_sandbox/style.css" />
      </head>
      <body>
        <header>
          <h1>Sandbox: a fake delivery provider</h1>
          <span>seed ${overview.seed}</span>
          <span>${overview.clock.kind} clock, ${overview.clock.now}</span>
          <span class="soft"
            >nothing here reaches a courier · <a href="/_sandbox/help">control interface</a></span
          >
        </header>
        <main>
          ${notice === null ? null : html`<p class="notice" role="status">${notice}</p>`}
          ${renderWorld(overview)} ${renderScenarios()} ${renderOrders(orders)}
          ${renderFaults(state.faults.current())} ${renderDashboard(overview)} ${renderEvents(events)}
          ${renderRequests(journal.entries().slice(0, REQUESTS_SHOWN))}
        </main>
      </body>
    </html>`;
  return page.markup;
}

function renderOrders(orders: readonly OrderRow[]): Html {
  return html`<section class="wide">
    <h2>Latest changed orders of <code>sandbox</code></h2>
    <div class="scroll" tabindex="0">
      <table>
        <tr>
          <th>reference</th>
          <th>mode</th>
          <th>status</th>
          <th>externalOrderId</th>
          <th>updatedAt (UTC)</th>
          <th>fleet and business</th>
        </tr>
        ${orders.map(
          (row) =>
            html`<tr>
              <td><code>${row.reference}</code></td>
              <td>${row.livemode ? "live" : "test"}</td>
              <td><span class="tag">${row.status}</span></td>
              <td><code>${row.externalOrderId}</code></td>
              <td>${formatInstant(row.updatedAt)}</td>
              <td>${renderMoves(row)}</td>
            </tr>`,
        )}
      </table>
    </div>
    ${orders.length === 0 ? html`<p class="soft">None yet.</p>` : null}
  </section>`;
}

function renderMoves(row: OrderRow): Html | null {
  const next = nextStatus(row.status);
  if (!next) return null;
  const path = `/_sandbox/orders/${encodeURIComponent(row.reference)}`;
  return html`<form method="post" action="${path}/step"><button>${next}</button></form>
    <form method="post" action="${path}/step">
      <input type="hidden" name="lose" value="true" /><button>${next}, event lost</button>
    </form>
    <form method="post" action="${path}/cancel"><button>fleet cancels</button></form>`;
}

function renderEvents(events: readonly EventView[]): Html {
  return html`<section class="wide">
    <h2>Events</h2>
    <div class="scroll" tabindex="0">
      <table>
        <tr>
          <th>event</th>
          <th>type</th>
          <th>order</th>
          <th>created (UTC)</th>
          <th>deliveries</th>
          <th></th>
        </tr>
        ${events.map(
          (event) =>
            html`<tr>
              <td><code>${event.eventId}</code></td>
              <td>${event.type}</td>
              <td><code>${event.reference}</code></td>
              <td>${formatInstant(event.created)}</td>
              <td>${renderDeliveries(event)}</td>
              <td>
                <form method="post" action="/_sandbox/events/${event.eventId}/resend">
                  <button>resend</button>
                </form>
              </td>
            </tr>`,
        )}
      </table>
    </div>
    ${events.length === 0 ? html`<p class="soft">None yet.</p>` : null}
  </section>`;
}

const NOT_SENT: Readonly<Record<string, string>> = {
  lost: "lost on purpose",
  no_plan: "not sent: the plan has no webhooks",
  no_endpoint: "not sent: no endpoint",
};

function renderDeliveries(event: EventView): Html {
  if (event.deliveries.length === 0) {
    return html`<span class="bad">${NOT_SENT[event.sentAs] ?? "none"}</span>`;
  }
  return html`${event.deliveries.map(({ state, reason, attempts, status, error }) => {
    const outcome = status ?? error ?? "";
    const look = state === "delivered" ? "good" : "bad";
    const again = reason === "event" ? "" : ` (${reason})`;
    return html`<div class="${look}">${state}${again} · ${attempts} × · ${outcome}</div>`;
  })}`;
}

function renderRequests(requests: readonly JournalEntry[]): Html {
  return html`<section class="wide">
    <h2>Requests</h2>
    <div class="scroll" tabindex="0">
      <table>
        <tr>
          <th>at (UTC)</th>
          <th>who</th>
          <th>request</th>
          <th>answer</th>
          <th>ms</th>
          <th>faults</th>
        </tr>
        ${requests.map(
          (entry) =>
            html`<tr>
              <td>${formatInstant(entry.at, 3)}</td>
              <td>${entry.organizationId ?? "unknown"} ${entry.mode}</td>
              <td><code>${entry.method} ${entry.path}${entry.query}</code></td>
              <td class="${entry.status >= 200 && entry.status < 300 ? "good" : "bad"}">
                ${entry.status === 0 ? "closed" : entry.status} ${entry.code}
              </td>
              <td>${entry.durationMs}</td>
              <td>${entry.faults.join(", ")}</td>
            </tr>`,
        )}
      </table>
    </div>
    ${requests.length === 0 ? html`<p class="soft">None yet.</p>` : null}
  </section>`;
}
