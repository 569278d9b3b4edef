import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import type { Viewer } from "../auth/viewer.ts";
import { renderAlert, renderGood, renderTime, renderWarning } from "../../html/marks.ts";
import { renderFacts } from "../../html/fieldList.ts";
import { renderValues } from "./designValues.ts";
import { renderPage } from "./page.ts";
import { renderChoice } from "./choice.ts";
import { numberColumn, renderTable } from "../../html/table.ts";

const MOODS = ["good", "warning", "critical", "neither"];
const STEPS = ["past", "current", "ahead"];

/** Every part of our pages in every state, to look at while the style is changed; the browser tests visit it, too. */
export function renderDesign(viewer: Viewer): string {
  const body = html`<h1>Design <span class="dim">every part in every state</span></h1>
    ${renderText()} ${renderMoods()} ${renderControls()} ${renderTables()} ${renderValues()}`;
  return renderPage({ title: "Design", body, viewer });
}

function renderText(): Html {
  return html`<h2>Text</h2>
    <h3>A smaller heading</h3>
    <p>
      A sentence with <a href="#main">a link</a>, <code>a command</code> and a
      <span class="badge">badge</span>.
    </p>
    <p>${renderGood("Good")} · ${renderWarning("A warning")} · ${renderAlert("Critical")}</p>
    <p class="dim">Less important, with a time: ${renderTime("2026-11-22T14:32:07Z")}</p>
    ${renderFacts({ Branch: "Centre", Fleet: "Swift", Updated: renderTime("2026-11-22T14:32:07Z") })}`;
}

function renderMoods(): Html {
  return html`<h2>Answers</h2>
    ${MOODS.map((mood) => html`<p class="verdict-line ${mood}">The verdict, when it is ${mood}.</p> `)}
    <ul class="tiles">
      ${MOODS.map(
        (mood) =>
          html`<li class="${mood}">
            <h3>A question?</h3>
            <p class="answer"><a href="#main">The answer</a></p>
            <p class="dim">what it is based on</p>
          </li> `,
      )}
    </ul>
    <ol class="track">
      ${STEPS.map(
        (step) =>
          html`<li class="${step}">
            <span class="step">A step that is ${step}</span> <span class="dim">14:32</span>
          </li> `,
      )}
    </ol>`;
}

function renderControls(): Html {
  return html`<h2>Controls</h2>
    <nav class="views" aria-label="Views">
      <ul>
        <li><a href="#main" aria-current="page">The view that is shown</a></li>
        <li><a href="#main">Another view</a></li>
      </ul>
    </nav>
    <form class="row" action="/ops/design">
      <label>A field <input name="field" placeholder="Any part" /></label>
      <label>A field with text <input name="other" value="do-7e" /></label>
      ${renderChoice({ label: "A choice", name: "choice", words: ["one", "another"], chosen: null })}
      <label class="check"><input type="checkbox" name="box" checked /> A box</label>
      <label class="check"><input type="checkbox" name="empty" /> An empty box</label>
      <button type="button" class="main">The main action</button>
      <button type="button">An action</button>
      <button type="button" disabled>Not for viewers</button>
      <a class="button" href="#main">A link to a step</a>
      <button type="button" class="plain">A quiet action</button>
    </form>
    <details>
      <summary>Folded</summary>
      <p>What is folded says so in its heading.</p>
    </details>
    <p><progress value="0.4" aria-label="Progress"></progress></p>`;
}

function renderTables(): Html {
  const cards = renderTable({
    title: "A table that becomes cards on a phone",
    columns: ["Order", "Status", "Delivered", numberColumn("Attempts")],
    cards: true,
    rows: [
      [
        html`<a class="name" href="#main">DO-7ETRJAPW</a>`,
        "Picked up",
        renderTime("2026-11-22T14:32:07Z"),
        "12,480",
      ],
      [
        "A reference that is much longer than any other one",
        html`Created <span class="badge">corrected</span>`,
        "–",
        "7",
      ],
    ],
  });
  const scrolling = renderTable({
    title: "A table that scrolls sideways",
    columns: ["From", "To", numberColumn("Length"), { title: "Last error", kind: "sentence" }],
    rows: [
      [
        renderTime("2026-11-22T14:32:07Z"),
        renderTime("2026-11-22T14:42:07Z"),
        "10 min 0 s",
        "A sentence wraps between its words when the table is narrow: 502 Bad gateway, three times in a row.",
      ],
      [renderTime("2026-11-21T23:59:59Z"), "–", "–", "none"],
    ],
  });
  return html`<h2>Tables</h2>
    ${cards} ${scrolling}
    <p class="empty">An empty list says what would be here.</p>
    <nav class="paging" aria-label="Pages of the list">
      <a class="button" href="#main">First page</a> <a class="button" href="#main">Next page</a>
    </nav>`;
}
