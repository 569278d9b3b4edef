import { Router } from "express";
import type { Pool } from "../../database/database.ts";
import { describeDelay } from "../../domain/duration.ts";
import { instantFromMillis } from "../../domain/order/instant.ts";
import {
  describeEndpoint,
  readOutgoingEndpoints,
  type OutgoingEndpoint,
} from "../../health/conditions/endpoints.sql.ts";
import { html, type Html } from "../../html/html.ts";
import {
  numberColumn,
  renderGood,
  renderMinute,
  renderName,
  renderTable,
  renderWarning,
} from "../../html/parts.ts";
import { sendPage, viewerOf, type Viewer } from "../page.ts";
import { describeCount } from "../phrases.ts";
import { renderRemedyButton } from "../remedies.ts";
import { ORDER, SOURCE, count, sentence, serveList, text, time, type List } from "./list.ts";

/** The endpoints of outgoing webhooks with what can be done about each, and their messages. */
export function makeOutgoingRoutes(pool: Pool): Router {
  const router = Router();
  router.get("/", async (_request, response) => {
    const endpoints = renderEndpoints(await readOutgoingEndpoints(pool), viewerOf(response));
    const body = html`<h1>Outgoing webhooks</h1>
      <p>
        Workers list their endpoints in OUTGOING_WEBHOOKS_FILE. While one is paused, or not listed, its
        messages are kept.
      </p>
      <div id="endpoints" data-live>${endpoints}</div>`;
    sendPage(response, { title: "Outgoing webhooks", body, section: "outgoing", live: true });
  });
  router.get("/messages", serveList(pool, "/ops/outgoing/messages", MESSAGES));
  return router;
}

function renderEndpoints(endpoints: readonly OutgoingEndpoint[], viewer: Viewer): Html {
  if (endpoints.length === 0)
    return html`<p class="empty">No endpoint is configured yet. Set OUTGOING_WEBHOOKS_FILE.</p>`;
  return renderTable({
    title: "Endpoints",
    cards: true,
    columns: [
      "Endpoint",
      "Sources",
      "State",
      numberColumn("Waiting"),
      "Oldest",
      "Next attempt",
      numberColumn("Given up"),
      "Last delivered",
      "Actions",
    ],
    rows: endpoints.map((endpoint) => {
      const { endpointId, sourceIds, pending, dead, pausedAt, unlistedSince } = endpoint;
      const state = describeEndpoint(endpoint);
      const link = (words: string | Html, query = "") =>
        html`<a href="/ops/outgoing/messages?endpoint=${encodeURIComponent(endpointId)}${query}"
          >${words}</a
        >`;
      return [
        link(renderName(endpointId)),
        sourceIds.join(", ") || "–",
        state === "ok" ? renderGood(state) : renderWarning(state),
        link(describeCount(pending), "&state=pending"),
        renderSeconds(endpoint.oldestPendingAt),
        pausedAt === null ? renderSeconds(endpoint.nextAttemptAt) : "–",
        link(describeCount(dead), "&state=dead"),
        renderSeconds(endpoint.newestDeliveredAt),
        html`${renderRemedyButton(pausedAt === null ? "outgoing-pause" : "outgoing-resume", endpointId, viewer)}
        ${pending > 0 && pausedAt === null && renderRemedyButton("outgoing-now", endpointId, viewer)}
        ${dead > 0 && renderRemedyButton("outgoing-retry", endpointId, viewer)}
        ${renderRemedyButton("outgoing-test", endpointId, viewer)}
        ${unlistedSince !== null && renderRemedyButton("outgoing-remove", endpointId, viewer)}`,
      ];
    }),
  });
}

/** A time in seconds since 1970. */
function renderSeconds(seconds: number | null): Html {
  return renderMinute(seconds === null ? null : instantFromMillis(Math.round(seconds * 1_000)));
}

interface Attempt {
  /** Seconds since 1970. */
  readonly at: number;
  readonly outcome: string;
  readonly ms: number;
}

/** The attempts of a message, newest first; the last ten are kept. */
function renderAttempts(attempts: readonly Attempt[]): string | Html {
  if (attempts.length === 0) return "–";
  const [last, ...earlier] = attempts.map(
    ({ at, outcome, ms }) => html`<span>${renderSeconds(at)} ${outcome}, ${describeDelay(ms / 1_000)}</span>`,
  );
  if (earlier.length === 0) return html`${last}`;
  return html`<details>
    <summary>${last}</summary>
    ${earlier.map((each) => html`<p>${each}</p>`)}
  </details>`;
}

const STATES: Readonly<Record<string, string>> = {
  pending: "waiting",
  dead: "given up",
  delivered: "delivered",
};

const MESSAGES: List = {
  title: "Messages to endpoints",
  section: "outgoing",
  note: "Delivered messages are kept for a week; those that were given up, until somebody has them sent again.",
  empty: "No change was planned for an endpoint yet.",
  filters: {
    endpoint: { label: "Endpoint", words: null, where: (word) => `endpoint_id = ${word}` },
    state: { label: "State", words: Object.keys(STATES), describe: (state) => STATES[state] ?? state },
  },
  columns: [
    text("Endpoint", "endpoint_id"),
    ORDER,
    SOURCE,
    text("Kind", "event_type"),
    { title: "State", select: ["state"], show: (state: string) => STATES[state] ?? state },
    count("Attempts", "attempts"),
    time("Created", "created_at", renderMinute),
    time("Next attempt", "case when state = 'pending' then next_attempt_at end", renderMinute),
    { title: "Last attempts", select: ["last_attempts"], show: renderAttempts },
    sentence("Answer", "answer"),
  ],
  keys: { created_at: "timestamptz", delivery_id: "uuid" },
  from: (rows) => `mirror.outgoing_deliveries where ${rows}`,
};
