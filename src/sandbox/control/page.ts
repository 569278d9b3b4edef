import { formatInstant } from "../../domain/order/instant.ts";
import {
  renderAction,
  renderChoice,
  renderFacts,
  renderGood,
  renderInstant,
  renderTable,
  renderWarning,
} from "../../html/parts.ts";
import { html, type Html } from "../../html/html.ts";
import { nextStatus, type OrderRow } from "../api/orderRow.ts";
import { readFigures, readOrders } from "../api/orders.sql.ts";
import { readEndpoints, readEvents, type EventView } from "../events/events.sql.ts";
import { modeOf } from "../world/directory.ts";
import type { ControlDeps } from "./control.ts";
import { faultsSchema, listChanged, NO_FAULTS, type Faults } from "./faults.ts";
import { SCENARIOS } from "./scenarios.ts";

/** The content of the control page and of GET /_sandbox/state. */
export async function readOverview({ state, journal }: ControlDeps) {
  const { pool, clock, dials, directory, faults } = state;
  const organizationIds = directory.organizations().map(({ organizationId }) => organizationId);
  const figures = await readFigures(pool, organizationIds);
  const endpoints = await readEndpoints(pool);
  return {
    seed: dials.seed,
    clock: { kind: clock.kind, now: formatInstant(clock.now()) },
    speed: dials.fleetSpeed,
    ordersPerMinute: dials.ordersPerMinute,
    retryBaseMs: dials.retryBaseMs,
    faults: Object.fromEntries(listChanged(faults.current()).map((name) => [name, faults.current()[name]])),
    organizations: directory.organizations().map((organization) => ({
      ...organization,
      ...figures.find((each) => each.organizationId === organization.organizationId),
      branches: directory.branchesOf(organization.organizationId),
    })),
    zones: directory.zones(),
    webhooks: endpoints.map(({ endpointId, organizationId, livemode, url, scheme }) => ({
      endpointId,
      organizationId,
      mode: modeOf(livemode),
      url,
      scheme,
    })),
    requests: journal.counts(),
  };
}

const ORGANIZATION = "sandbox";
const ORDERS_SHOWN = 15;
const EVENTS_SHOWN = 15;

type MirrorPageOf = ControlDeps["mirrorPageOf"];

/** Reads the latest orders of both modes. */
async function readLatest({ state }: ControlDeps): Promise<OrderRow[]> {
  const faults = { ...NO_FAULTS, listOrder: "descending" } as const;
  const ofMode = (livemode: boolean) =>
    readOrders(state.pool, { organizationId: ORGANIZATION, livemode, limit: ORDERS_SHOWN }, faults);
  const orders = [...(await ofMode(true)), ...(await ofMode(false))];
  return orders.toSorted((left, right) => Number(right.updatedAt - left.updatedAt)).slice(0, ORDERS_SHOWN);
}

/** The whole control page. It has no script: every button is a form. */
export async function renderPage(deps: ControlDeps, notice: string | null): Promise<string> {
  const { state, mirrorPageOf } = deps;
  const overview = await readOverview(deps);
  const orders = await readLatest(deps);
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
          ${renderEvents(events, mirrorPageOf)}
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
    ${renderAction(`${path}/step`, `${next}, event lost`, { lose: "true" })}
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
  ]);
  const columns = ["Event", "Type", "Order", "Created", "Deliveries"];
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
    ${event.deliveries.map(({ state, attempts, status, error }) => {
      const outcome = status ?? error ?? "";
      const look = state === "delivered" ? "good" : "alert";
      return html`<li class="${look}">${state} · ${attempts} × · ${outcome}</li>`;
    })}
  </ul>`;
}

type Overview = Awaited<ReturnType<typeof readOverview>>;

function renderWorld(overview: Overview): Html {
  const { speed, ordersPerMinute } = overview;
  const mode = renderChoice({
    label: "Mode",
    name: "mode",
    words: ["live", "test"],
    chosen: "live",
    any: null,
  });
  return html`<section>
    <h2>World</h2>
    ${renderForm("dials", "Set", [
      renderNumber("Fleet speed", "speed", speed, html`min="0" step="any"`),
      renderNumber("Orders per minute", "ordersPerMinute", ordersPerMinute, html`min="0" step="any"`),
    ])}
    ${renderForm("orders", "Order", [renderNumber("New orders", "count", 5, html`min="1" max="100000"`), mode])}
  </section>`;
}

function renderForm(action: string, label: string, fields: readonly Html[]): Html {
  return html`<form class="row" method="post" action="/_sandbox/${action}">
    ${fields}<button>${label}</button>
  </form>`;
}

function renderNumber(label: string, name: string, value: number, limits: Html): Html {
  return html`<label>${label} <input name="${name}" type="number" ${limits} value="${value}" /></label>`;
}

function renderScenarios(): Html {
  return html`<section>
    <h2>Scenarios</h2>
    <form class="row" method="post" action="/_sandbox/scenarios">
      ${renderChoice({ label: "Scenario", name: "scenario", words: SCENARIOS.map(({ name }) => name), chosen: null, any: null })}
      <label>Reference (empty: a new order) <input name="reference" placeholder="DO-…" /></label>
      <button class="main">Trigger</button>
    </form>
    <details>
      <summary>What each scenario does, and what to expect</summary>
      <dl>
        ${SCENARIOS.map(
          ({ name, summary, expect }) =>
            html`<dt>${name}</dt>
              <dd>${summary} <span class="dim">${expect}</span></dd>`,
        )}
      </dl>
    </details>
  </section>`;
}

function renderFaults(faults: Faults): Html {
  const changed = listChanged(faults);
  return html`<h2>Faults</h2>
    <p>
      ${
        changed.length === 0
          ? renderGood("None are on.")
          : renderWarning(`Changed: ${changed.map((name) => wordsOf(name)).join(", ")}`)
      }
      <span class="dim">Shares are between 0 and 1.</span>
    </p>
    <form class="row dials" method="post" action="/_sandbox/faults">
      ${(Object.keys(NO_FAULTS) as (keyof Faults)[]).map((name) => renderFault(name, faults))}
      <button class="main">Apply</button>
    </form>`;
}

const wordsOf = (name: keyof Faults) => faultsSchema.shape[name].description ?? name;

function renderFault(name: keyof Faults, faults: Faults): Html {
  const label = html`${wordsOf(name)} <code>${name}</code>`;
  const chosen = String(faults[name]);
  const field = faultsSchema.shape[name].unwrap();
  if ("options" in field) return renderChoice({ label, name, words: field.options, chosen, any: null });
  return html`<label>${label} <input name="${name}" value="${chosen}" /></label>`;
}
