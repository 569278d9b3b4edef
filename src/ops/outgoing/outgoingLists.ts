import type { Pool } from "../../database/database.ts";
import { instantFromMillis } from "../../domain/order/instant.ts";
import { describeEndpoint, readOutgoingEndpoints } from "../../health/endpoints.sql.ts";
import type { OutgoingEndpoint } from "../../health/endpoints.sql.ts";
import {
  DELIVERY_STATES,
  readDeliveries,
  readRecentMessages,
  RECENT_MAX,
} from "../../outgoing/outgoingReads.sql.ts";
import type { Delivery, DeliveryState, RecentMessages } from "../../outgoing/outgoingReads.sql.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { renderFacts } from "../../html/fieldList.ts";
import type { List, Listed, ListQuery } from "../lists/list.ts";
import { describeCount, endpointAddress, linkOrder } from "../overview/phrases.ts";
import { renderGood, renderInstant, renderWarning } from "../../html/marks.ts";

interface ListedEndpoint extends Listed {
  readonly endpoint: OutgoingEndpoint;
  readonly recent: RecentMessages;
}

export const STATE_WORDS: Readonly<Record<DeliveryState, string>> = {
  pending: "waiting",
  dead: "given up",
  delivered: "delivered",
};

/** Every configured endpoint. */
export const ENDPOINT_LIST: List<ListedEndpoint> = {
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
export function makeMessageList(endpoint: OutgoingEndpoint, recent: RecentMessages): List<Delivery & Listed> {
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
export function renderSeconds(seconds: number | null): Html {
  return renderInstant(seconds === null ? null : instantFromMillis(Math.round(seconds * 1_000)));
}
