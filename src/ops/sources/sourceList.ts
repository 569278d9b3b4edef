import type { Pool } from "../../database/database.ts";
import { readStandings } from "../../health/standing.sql.ts";
import type { Standing } from "../../health/standing.sql.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import type { List, Listed, ListQuery } from "../lists/list.ts";
import { describeBoundedCount } from "../overview/phrases.ts";
import { renderAlert, renderInstant, renderMinute } from "../../html/marks.ts";

type ListedSource = Standing & Listed;

function sourceAddress(sourceId: string): string {
  return `/ops/sources/${encodeURIComponent(sourceId)}`;
}

/** Every source that was ever configured. */
export const SOURCE_LIST: List<ListedSource> = {
  title: "Sources",
  section: "sources",
  note: "A source is an organization at the provider in one mode, test or live. Everything is stored by source.",
  empty: "No source is configured yet. Set DELIVERY_LIVE_API_KEY or SOURCES_FILE.",
  ofSources: false,
  sorts: ["name"],
  columns: [
    {
      title: "Source",
      show: ({ sourceId }) => html`<a class="name" href="${sourceAddress(sourceId)}">${sourceId}</a>`,
    },
    { title: "Mode", show: ({ mode }) => mode },
    { title: "Polling", show: describePolling },
    { title: "Complete up to", show: ({ safeThrough }) => renderMinute(safeThrough) },
    { title: "Last event", show: ({ lastEventAt }) => renderInstant(lastEventAt) },
    { title: "Gaps", kind: "number", show: ({ gaps }) => describeBoundedCount(gaps) },
    { title: "Waiting", kind: "number", show: ({ pending }) => describeBoundedCount(pending) },
    { title: "In quarantine", kind: "number", show: ({ quarantined }) => describeBoundedCount(quarantined) },
  ],
  read: readSources,
};

/** Sources are few: they are read together. */
async function readSources(pool: Pool, { after, limit }: ListQuery): Promise<ListedSource[]> {
  const [last = ""] = after ?? [];
  const standings = await readStandings(pool);
  return standings
    .filter(({ sourceId }) => sourceId > last)
    .slice(0, limit)
    .map((standing) => ({ ...standing, position: [standing.sourceId] }));
}

export function describePolling({ pausedAt, lastError, leader }: Standing): Html | string {
  if (pausedAt !== null) return html`paused since ${renderMinute(pausedAt)}`;
  if (leader === null) return renderAlert("no poller is running");
  return lastError === null ? "running" : renderAlert("failing");
}
