import { formatInstant } from "../../domain/order/instant.ts";
import type { OpenTask } from "../../health/opsFigures.sql.ts";
import type { Standing } from "../../health/standing.sql.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { estimateLeft } from "./catchUp.ts";
import { describeCount, describeSpan, sourceQuery } from "./phrases.ts";
import { renderAlert, renderTime } from "../../html/marks.ts";

const HUNDRED = 100;
/** If less than this is missing, the delayed sweep will cover it, and there is nothing to catch up. */
const CAUGHT_UP_NANOS = 3_600n * 1_000_000_000n;

/** Reads that run next to current polling, with their progress. */
export function renderTasks({ standing, tasks }: { standing: Standing; tasks: readonly OpenTask[] }): Html {
  const history = renderHistory(standing);
  const { sourceId } = standing;
  return html`<h3>
      Backfills and verifications
      <span class="dim">running and waiting, now · <a href="/ops/tasks${sourceQuery(sourceId)}">all</a></span>
    </h3>
    ${
      history === undefined && tasks.length === 0
        ? html`<p class="dim">None.</p>`
        : html`<ul class="plain tasks">
            ${history ?? html``}${tasks.map(renderTask)}
          </ul>`
    }`;
}

/** The history of a new source, or the changes missed while nobody polled; undefined once it has caught up. */
function renderHistory({ now, historySince, safeThrough }: Standing): Html | undefined {
  if (historySince === null) return undefined;
  const reached = safeThrough ?? historySince;
  if (now - reached < CAUGHT_UP_NANOS || now <= historySince) return undefined;
  const share = Number(reached - historySince) / Number(now - historySince);
  return html`<li>
    <strong>history</strong> ${renderTime(formatInstant(historySince, 0))} to now
    ${renderBar("history", share)}
    <span class="dim">read without gaps from its beginning</span>
  </li> `;
}

function renderTask(task: OpenTask): Html {
  const { kind, id, since, until, running, share, orders, elapsedSeconds, lastError } = task;
  const name = `${kind} ${id}`;
  const rate = elapsedSeconds > 0 ? `${describeCount(Math.round(orders / elapsedSeconds))} orders/s` : "";
  const seconds = estimateLeft(task);
  const left = seconds === null ? "" : `about ${describeSpan(seconds)} left`;
  const pace = [`${describeCount(orders)} orders`, rate, left].filter((part) => part !== "").join(" · ");
  return html`<li>
    <strong>${name}</strong> ${renderTime(formatInstant(since, 0))} to ${renderTime(formatInstant(until, 0))}
    ${running ? renderBar(name, share) : html`<span class="dim">waiting</span>`}
    <span class="dim">${running ? pace : ""}</span>
    ${lastError !== null && html`${renderAlert(lastError)} <span class="dim">will be retried</span>`}
    <span class="dim"
      ><code>order-mirror ${kind === "backfill" ? "backfill" : "verify"} --watch ${id}</code></span
    >
  </li> `;
}

function renderBar(name: string, share: number): Html {
  const percent = Math.floor(share * HUNDRED * 10) / 10;
  return html`<progress max="100" value="${percent}" aria-label="${name}"></progress> ${percent} %`;
}
