import { PLANS, SUBSCRIPTIONS } from "../world/directory.sql.ts";
import { faultsSchema, NO_FAULTS } from "../control/faults.ts";
import type { Faults } from "../control/faults.ts";
import { FAULT_WORDS } from "./faultWords.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import type { readOverview } from "./overview.ts";
import { SCENARIOS } from "../control/scenarios.ts";

const NAMES = SCENARIOS.map(({ name }) => name);

type Overview = Awaited<ReturnType<typeof readOverview>>;

export function renderWorld(overview: Overview): Html {
  const { speed, ordersPerMinute, clock } = overview;
  return html`<section>
    <h2>World</h2>
    <form class="block" method="post" action="/_sandbox/dials">
      <label>fleet speed <input name="speed" type="number" min="0" step="any" value="${speed}" /></label>
      <label
        >orders per minute
        <input name="ordersPerMinute" type="number" min="0" step="any" value="${ordersPerMinute}"
      /></label>
      <button class="main">set</button>
    </form>
    <form class="block" method="post" action="/_sandbox/orders">
      <label>new orders <input name="count" type="number" min="1" max="100000" value="5" /></label>
      <label>mode ${renderChoice("mode", ["live", "test"], "live")}</label>
      <button>order</button>
    </form>
    <form class="block" method="post" action="/_sandbox/seed">
      <label>orders of the last 30 days <input name="orders" type="number" min="1" value="1000" /></label>
      <button>seed</button>
    </form>
    ${
      clock.kind === "virtual"
        ? html`<form class="block" method="post" action="/_sandbox/clock">
            <label
              >advance clock by (ms) <input name="advanceMs" type="number" min="0" value="60000"
            /></label>
            <button>advance</button>
          </form>`
        : null
    }
    <form class="block" method="post" action="/_sandbox/reset">
      <label>seed <input name="seed" type="number" min="0" value="${overview.seed}" /></label>
      <button>reset the world (deletes all orders)</button>
    </form>
    <h2>Webhook endpoints</h2>
    ${overview.webhooks.length === 0 ? html`<p class="soft">None: no events are sent.</p>` : null}
    ${overview.webhooks.map(
      (webhook) => html`<p><code>${webhook.endpointId}</code> → <code>${webhook.url}</code></p>`,
    )}
  </section>`;
}

export function renderScenarios(): Html {
  return html`<section>
    <h2>Scenarios</h2>
    <form class="block" method="post" action="/_sandbox/scenarios">
      <label>scenario ${renderChoice("scenario", NAMES, NAMES[0] ?? "")}</label>
      <label>reference (empty: a new order) <input name="reference" placeholder="DO-…" /></label>
      <button class="main">trigger</button>
    </form>
    <dl tabindex="0">
      ${SCENARIOS.map(
        ({ name, summary, expect }) =>
          html`<dt>${name}</dt>
            <dd>${summary} <span class="soft">${expect}</span></dd>`,
      )}
    </dl>
  </section>`;
}

export function renderFaults(faults: Faults): Html {
  const names = Object.keys(NO_FAULTS) as (keyof Faults)[];
  const changed = names.filter((name) => faults[name] !== NO_FAULTS[name]);
  return html`<section class="wide">
    <h2>Faults</h2>
    <p>
      ${
        changed.length === 0
          ? html`<span class="good">None are on.</span>`
          : html`<span class="bad">Changed: ${changed.map((name) => FAULT_WORDS[name]).join(", ")}</span>`
      }
      <span class="soft">Shares are between 0 and 1.</span>
    </p>
    <form class="grid" method="post" action="/_sandbox/faults">
      ${names.map((name) => renderFault(name, faults))}
      <button class="main">apply</button>
    </form>
  </section>`;
}

export function renderDashboard(overview: Overview): Html {
  return html`<section class="wide">
    <h2>Organizations</h2>
    <div class="scroll" tabindex="0">
      <table>
        <tr>
          <th>organization</th>
          <th>orders</th>
          <th>charges</th>
          <th>address searches</th>
          <th>plan and subscription</th>
          <th>branches</th>
        </tr>
        ${overview.organizations.map(renderOrganization)}
      </table>
    </div>
  </section>`;
}

function renderOrganization(organization: Overview["organizations"][number]): Html {
  const { organizationId, name, plan, subscription, orders, charges, searches, branches } = organization;
  return html`<tr>
    <td><code>${organizationId}</code><br /><small>${name}</small></td>
    <td>${orders}</td>
    <td>${charges}</td>
    <td>${searches}</td>
    <td>
      <form method="post" action="/_sandbox/organizations/${organizationId}">
        ${renderChoice("plan", PLANS, plan)} ${renderChoice("subscription", SUBSCRIPTIONS, subscription)}
        <button>set</button>
      </form>
    </td>
    <td>
      ${branches.map((branch) => {
        const primary = branch.connections.find((connection) => connection.isPrimary)?.zoneCode;
        const path = `/_sandbox/branches/${branch.branchId}`;
        const state = branch.closed ? "closed" : (primary ?? "not connected");
        return html`<div>
          <form method="post" action="${path}">
            <input type="hidden" name="organization" value="${organizationId}" />
            <input type="hidden" name="closed" value="${branch.closed ? "false" : "true"}" />
            ${branch.name} <span class="tag">${state}</span>
            <button>${branch.closed ? "open" : "close"}</button>
          </form>
          ${
            primary === undefined
              ? null
              : html`<form method="post" action="${path}">
                  <input type="hidden" name="organization" value="${organizationId}" />
                  <input type="hidden" name="primary" value="none" />
                  <button>disconnect primary</button>
                </form>`
          }
        </div>`;
      })}
    </td>
  </tr>`;
}

function renderFault(name: keyof Faults, faults: Faults): Html {
  return html`<label>${FAULT_WORDS[name]} <code>${name}</code> ${renderDial(name, faults)}</label>`;
}

function renderDial(name: keyof Faults, faults: Faults): Html {
  const value = String(faults[name]);
  const look = faults[name] === NO_FAULTS[name] ? "" : "on";
  const field = faultsSchema.shape[name];
  if ("options" in field && field.options.every((option) => typeof option === "string")) {
    return renderChoice(name, field.options, value, look, FAULT_WORDS[name]);
  }
  if (typeof NO_FAULTS[name] === "boolean")
    return renderChoice(name, ["false", "true"], value, look, FAULT_WORDS[name]);
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
