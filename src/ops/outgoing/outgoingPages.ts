import { Router } from "express";
import type { Request, Response } from "express";
import type { Pool } from "../../database/database.ts";
import { instantFromMillis } from "../../domain/order/instant.ts";
import { describeEndpoint, findOutgoingEndpoint, readOutgoingEndpoints } from "../../health/endpoints.sql.ts";
import type { OutgoingEndpoint } from "../../health/endpoints.sql.ts";
import { renderAction, renderForbidden } from "../../html/parts.ts";
import { renderFacts } from "../../html/parts.ts";
import { renderGood, renderInstant, renderWarning } from "../../html/parts.ts";
import { sendAgain } from "../../outgoing/outgoingPlan.sql.ts";
import {
  DELIVERY_STATES,
  RECENT_MAX,
  findDelivery,
  readDeliveries,
  readRecentMessages,
} from "../../outgoing/outgoingReads.sql.ts";
import type { Delivery, DeliveryState, RecentMessages } from "../../outgoing/outgoingReads.sql.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { mayAct, viewerOf } from "../auth/viewer.ts";
import type { Viewer } from "../auth/viewer.ts";
import { renderPage } from "../html/page.ts";
import { readField, refuse, sendPage } from "../html/requests.ts";
import { carryOut } from "../lists/audit.sql.ts";
import { serveList } from "../lists/listPage.ts";
import type { List, ListQuery, Listed } from "../lists/listPage.ts";
import { describeCount, describeDelay, endpointAddress, linkOrder } from "../overview/phrases.ts";

const NO_ENDPOINT = "There is no endpoint with that name.";
const NO_MESSAGE = "There is no message with that number; delivered ones are kept for a week.";

/** The endpoints of outgoing webhooks, and their messages. */
export function makeOutgoingRoutes(pool: Pool): Router {
  const router = Router();
  router.get("/", serveList(pool, "/ops/outgoing", ENDPOINT_LIST));
  router.get("/:endpointId", async (request, response, next) => {
    const { endpointId } = request.params;
    const endpoint = await findOutgoingEndpoint(pool, endpointId);
    if (endpoint === undefined) return refuse(response, 404, NO_ENDPOINT);
    const list = makeMessageList(endpoint, await readRecentMessages(pool, endpointId));
    return serveList(pool, endpointAddress(endpointId), list)(request, response, next);
  });
  router.get("/:endpointId/:deliveryId", async ({ params }, response) => {
    const delivery = await findMessage(pool, params);
    if (delivery === undefined) return refuse(response, 404, NO_MESSAGE);
    sendPage(response, renderMessage({ delivery, viewer: viewerOf(response) }));
  });
  router.post("/:endpointId/:deliveryId/retry", (request, response) => retry(pool, request, response));
  return router;
}

async function retry(pool: Pool, { params }: Request, response: Response): Promise<void> {
  const delivery = await findMessage(pool, params);
  if (delivery === undefined) return refuse(response, 404, NO_MESSAGE);
  const { endpointId, deliveryId, sourceId } = delivery;
  const target = `message ${deliveryId} to ${endpointId}`;
  const action = { action: "retry_message", sourceId, target };
  await carryOut(pool, response, action, async () => Number(await sendAgain(pool, delivery)));
}

async function findMessage(pool: Pool, params: Request["params"]): Promise<Delivery | undefined> {
  const deliveryId = /^\d{1,18}$/.exec(readField(params["deliveryId"]))?.[0];
  const endpointId = readField(params["endpointId"]);
  return deliveryId === undefined ? undefined : findDelivery(pool, { endpointId, deliveryId });
}

interface ListedEndpoint extends Listed {
  readonly endpoint: OutgoingEndpoint;
  readonly recent: RecentMessages;
}

const STATE_WORDS: Readonly<Record<DeliveryState, string>> = {
  pending: "waiting",
  dead: "given up",
  delivered: "delivered",
};

/** Every configured endpoint. */
const ENDPOINT_LIST: List<ListedEndpoint> = {
  title: "Outgoing webhooks",
  section: "outgoing",
  note: `The endpoints of OUTGOING_WEBHOOKS_FILE. Accepted: the share of messages within 24 h, of the newest ${describeCount(RECENT_MAX)}.`,
  empty: "No endpoint is configured yet. Set OUTGOING_WEBHOOKS_FILE.",
  ofSources: false,
  sorts: ["name"],
  columns: [
    {
      title: "Endpoint",
      show: ({ endpoint: { endpointId } }) =>
        html`<a class="name" href="${endpointAddress(endpointId)}">${endpointId}</a>`,
    },
    { title: "Sources", show: ({ endpoint }) => endpoint.sourceIds.join(", ") || "–" },
    { title: "State", show: ({ endpoint }) => renderState(endpoint) },
    { title: "Waiting", kind: "number", show: ({ endpoint }) => describeCount(endpoint.pending) },
    { title: "Oldest", show: ({ endpoint }) => renderSeconds(endpoint.oldestPendingAt) },
    { title: "Given up", kind: "number", show: ({ endpoint }) => describeCount(endpoint.dead) },
    { title: "Accepted", kind: "number", show: ({ recent }) => describeAccepted(recent) },
    { title: "Last error", show: ({ recent }) => renderLastError(recent) },
  ],
  read: readEndpoints,
};

/** Endpoints are few: they are read together. */
async function readEndpoints(pool: Pool, { after, limit }: ListQuery): Promise<ListedEndpoint[]> {
  const [last = ""] = after ?? [];
  const endpoints = await readOutgoingEndpoints(pool);
  const rows = [];
  for (const endpoint of endpoints.filter(({ endpointId }) => endpointId > last).slice(0, limit)) {
    const { endpointId } = endpoint;
    rows.push({ endpoint, recent: await readRecentMessages(pool, endpointId), position: [endpointId] });
  }
  return rows;
}

/** The messages of an endpoint. */
function makeMessageList(endpoint: OutgoingEndpoint, recent: RecentMessages): List<Delivery & Listed> {
  const { endpointId } = endpoint;
  return {
    title: `Messages to ${endpointId}`,
    section: "outgoing",
    note: "Delivered messages are kept for a week; those that were given up, until somebody has them sent again.",
    empty: "No change was planned for this endpoint yet.",
    ofSources: false,
    filters: {
      state: {
        label: "State",
        words: DELIVERY_STATES,
        describe: (state) => STATE_WORDS[state as DeliveryState],
      },
    },
    sorts: ["newest"],
    columns: [
      {
        title: "Message",
        show: ({ deliveryId }) =>
          html`<a class="name" href="${endpointAddress(endpointId)}/${deliveryId}">${deliveryId}</a>`,
      },
      { title: "Order", show: linkOrder },
      { title: "Source", show: ({ sourceId }) => sourceId },
      { title: "Kind", show: ({ type }) => type },
      { title: "State", show: ({ state }) => STATE_WORDS[state] },
      { title: "Attempts", kind: "number", show: ({ attempts }) => String(attempts) },
      { title: "Created", show: ({ createdAt }) => renderSeconds(createdAt) },
      { title: "Last attempt", show: ({ lastAttemptAt }) => renderSeconds(lastAttemptAt) },
      { title: "Outcome", show: ({ outcome }) => outcome ?? "–" },
    ],
    async read(pool, { chosen, after, limit }) {
      const state = DELIVERY_STATES.find((each) => each === chosen["state"]) ?? null;
      const rows = await readDeliveries(pool, { endpointId, state, before: after?.[0] ?? null, limit });
      return rows.map((row) => ({ ...row, position: [row.deliveryId] }));
    },
    above: () => renderEndpoint(endpoint, recent),
  };
}

function renderEndpoint(endpoint: OutgoingEndpoint, recent: RecentMessages): Html {
  return html`<div id="endpoint" data-live>
    ${renderFacts({
      State: renderState(endpoint),
      Sources: endpoint.sourceIds.join(", ") || "–",
      Waiting: describeCount(endpoint.pending),
      "Oldest waiting": renderSeconds(endpoint.oldestPendingAt),
      "Given up": describeCount(endpoint.dead),
      "Last delivered": renderSeconds(endpoint.newestDeliveredAt),
      "Accepted, 24 h": describeAccepted(recent),
      "Last error, 24 h": renderLastError(recent),
    })}
    ${renderActions(endpoint)}
  </div>`;
}

/** Each button leads to a page that says what would happen. */
function renderActions({ endpointId, pausedAt, dead }: OutgoingEndpoint): Html {
  const lead = (page: string, label: string) =>
    html`<a class="button" href="/ops/outgoing-${page}?endpoint=${encodeURIComponent(endpointId)}"
      >${label}</a
    >`;
  return html`<p class="actions">
    ${pausedAt === null && lead("pause", "Pause…")} ${pausedAt !== null && lead("resume", "Resume…")}
    ${dead !== 0 && lead("retry", `Send ${describeCount(dead)} again…`)}
  </p>`;
}

function renderState(endpoint: OutgoingEndpoint): Html {
  const words = describeEndpoint(endpoint);
  return words === "ok" ? renderGood(words) : renderWarning(words);
}

function describeAccepted({ ended, accepted }: RecentMessages): string {
  if (ended === 0) return "no messages";
  // Rounded down: 100 % only if all were accepted.
  const percent = Math.floor((accepted / ended) * 1_000) / 10;
  return `${percent}\u00a0% of ${describeCount(ended)}`;
}

function renderLastError({ lastError, lastErrorAt }: RecentMessages): Html {
  return lastError === null ? html`none` : html`${lastError} at ${renderSeconds(lastErrorAt)}`;
}

/** A time in seconds since 1970. */
function renderSeconds(seconds: number | null): Html {
  return renderInstant(seconds === null ? null : instantFromMillis(Math.round(seconds * 1_000)));
}

/** A message, and how its last attempt ended. */
function renderMessage({ delivery, viewer }: { delivery: Delivery; viewer: Viewer }): string {
  const { deliveryId, endpointId, sourceId, type, state, outcome, durationMs, answer } = delivery;
  const title = `Message ${deliveryId} to ${endpointId}`;
  const label = state === "pending" ? "Send now" : "Send again";
  const act = mayAct(viewer)
    ? renderAction(`${endpointAddress(endpointId)}/${deliveryId}/retry`, label, { look: "row" })
    : renderForbidden(label, "Only operators may do this.");
  const ending = outcome ?? "Nothing was sent yet.";
  const body = html`<h1>${title} <span class="badge">${STATE_WORDS[state]}</span></h1>
    ${renderFacts({
      Order: linkOrder(delivery),
      Source: sourceId,
      Kind: type,
      Created: renderSeconds(delivery.createdAt),
      Attempts: String(delivery.attempts),
      "Last attempt": renderSeconds(delivery.lastAttemptAt),
      "Last outcome": state === "delivered" ? renderGood(ending) : renderWarning(ending),
      Duration: durationMs === null ? "–" : describeDelay(durationMs / 1_000),
      Answer: answer === null ? "–" : html`<span class="mono">${answer}</span>`,
    })}
    ${act}
    <p><a href="${endpointAddress(endpointId)}">All messages to ${endpointId}</a></p>`;
  return renderPage({ title, body, viewer, section: "outgoing" });
}
