import { PLANS, SUBSCRIPTIONS } from "../world/directory.ts";
import { faultsSchema, listChanged, NO_FAULTS } from "../control/faults.ts";
import type { Faults } from "../control/faults.ts";
import { renderAction } from "../../html/action.ts";
import type { Sent } from "../../html/action.ts";
import { renderGood, renderWarning } from "../../html/marks.ts";
import { numberColumn, renderTable } from "../../html/table.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import type { readOverview } from "./overview.ts";
import { SCENARIOS } from "../control/scenarios.ts";

const NAMES = SCENARIOS.map(({ name }) => name);

type Overview = Awaited<ReturnType<typeof readOverview>>;

export function renderWorld(overview: Overview): Html {
  const { speed, ordersPerMinute, clock, seed } = overview;
  const mode = html`<label>Mode ${renderChoice("mode", ["live", "test"], "live", "", "Mode")}</label>`;
  return html`<section>
    <h2>World</h2>
    ${renderForm("dials", "Set", [
      renderNumber("Fleet speed", "speed", speed, html`min="0" step="any"`),
      renderNumber("Orders per minute", "ordersPerMinute", ordersPerMinute, html`min="0" step="any"`),
    ])}
    ${renderForm("orders", "Order", [renderNumber("New orders", "count", 5, html`min="1" max="100000"`), mode])}
    ${renderForm("seed", "Add", [renderNumber("Orders of the last 30 days", "orders", 1_000, html`min="1"`)])}
    ${clock.kind === "virtual" && renderForm("clock", "Advance", [renderNumber("Advance the clock, in ms", "advanceMs", 60_000)])}
    ${renderForm("reset", "Reset the world (deletes all orders)", [renderNumber("Seed", "seed", seed)])}
  </section>`;
}

function renderForm(action: string, label: string, fields: readonly Html[]): Html {
  return html`<form class="row" method="post" action="/_sandbox/${action}">
    ${fields}<button>${label}</button>
  </form>`;
}

function renderNumber(label: string, name: string, value: number, limits = html`min="0"`): Html {
  return html`<label>${label} <input name="${name}" type="number" ${limits} value="${value}" /></label>`;
}

export function renderScenarios(): Html {
  return html`<section>
    <h2>Scenarios</h2>
    <form class="row" method="post" action="/_sandbox/scenarios">
      <label>Scenario ${renderChoice("scenario", NAMES, NAMES[0] ?? "", "", "Scenario")}</label>
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

export function renderFaults(faults: Faults): Html {
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

export function renderDashboard({ organizations, webhooks }: Overview): Html {
  const title = "Organizations";
  const columns = [
    "Organization",
    ...["Orders", "Charges", "Address searches"].map(numberColumn),
    "Plan and subscription",
    "Branches",
  ];
  const endpoints = webhooks.map(({ endpointId, organizationId, mode, url }) => [
    organizationId,
    mode,
    html`<span class="mono">${endpointId}</span>`,
    html`<span class="mono">${url}</span>`,
  ]);
  return html`<h2>${title}</h2>
    ${renderTable({ title, columns, rows: organizations.map(renderOrganization), cards: true })}
    <h2>Webhook endpoints</h2>
    ${
      endpoints.length === 0
        ? html`<p class="empty">No endpoints: no events are sent.</p>`
        : renderTable({
            title: "Webhook endpoints",
            columns: ["Organization", "Mode", "Endpoint", "Address"],
            rows: endpoints,
            cards: true,
          })
    }`;
}

function renderOrganization(organization: Overview["organizations"][number]): Html[] {
  const { organizationId, name, plan, subscription, orders, charges, searches, branches } = organization;
  return [
    html`<span>${name} <br /><span class="mono dim">${organizationId}</span></span>`,
    ...[orders, charges, searches].map((count) => html`${count}`),
    html`<form class="actions" method="post" action="/_sandbox/organizations/${organizationId}">
      ${renderChoice("plan", PLANS, plan)} ${renderChoice("subscription", SUBSCRIPTIONS, subscription)}
      <button>Set</button>
    </form>`,
    html`<ul class="plain">
      ${branches.map((branch) => renderBranch(organizationId, branch))}
    </ul>`,
  ];
}

function renderBranch(
  organizationId: string,
  branch: Overview["organizations"][number]["branches"][number],
): Html {
  const primary = branch.connections.find((connection) => connection.isPrimary)?.zoneCode;
  const path = `/_sandbox/branches/${branch.branchId}`;
  const state = branch.closed ? "closed" : (primary ?? "not connected");
  const act = (label: string, change: Sent) =>
    renderAction(path, label, { sent: { organization: organizationId, ...change } });
  return html`<li class="actions">
    <span>${branch.name} <span class="badge">${state}</span></span>
    ${act(branch.closed ? "Open" : "Close", { closed: String(!branch.closed) })}
    ${primary !== undefined && act("Disconnect primary", { primary: "none" })}
  </li>`;
}

const wordsOf = (name: keyof Faults) => faultsSchema.shape[name].description ?? name;

function renderFault(name: keyof Faults, faults: Faults): Html {
  return html`<label
    ><span>${wordsOf(name)} <code>${name}</code></span> ${renderDial(name, faults)}</label
  >`;
}

function renderDial(name: keyof Faults, faults: Faults): Html {
  const value = String(faults[name]);
  const look = faults[name] === NO_FAULTS[name] ? "" : "on";
  const field = faultsSchema.shape[name].unwrap();
  if ("options" in field && field.options.every((option) => typeof option === "string")) {
    return renderChoice(name, field.options, value, look, wordsOf(name));
  }
  if (typeof NO_FAULTS[name] === "boolean")
    return renderChoice(name, ["false", "true"], value, look, wordsOf(name));
  return html`<input class="${look}" name="${name}" value="${value}" />`;
}

function renderChoice(
  name: string,
  choices: readonly string[],
  chosen: string,
  look = "",
  label = name,
): Html {
  return html`<select class="${look}" name="${name}" aria-label="${label}">
    ${choices.map((choice) =>
      choice === chosen ? html`<option selected>${choice}</option>` : html`<option>${choice}</option>`,
    )}
  </select>`;
}
