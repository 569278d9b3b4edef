import type { Holding } from "../../health/judge.ts";
import type { Standing } from "../../health/standing.sql.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { mayAct } from "../auth/viewer.ts";
import type { Viewer } from "../auth/viewer.ts";
import { describeBoundedCount, sourceQuery } from "../overview/phrases.ts";

/** The words of the button, and the address of the page that says what would be done, and does it. */
type Remedy = readonly [label: string, address: string];
type SourceRemedy = (standing: Standing) => readonly [label: string, page: string] | null;

const readGap: SourceRemedy = ({ gaps }) =>
  gaps === 0 ? null : [gaps === 1 ? "Read this gap now…" : `Read ${gaps} gaps now…`, "gap"];

const OF_SOURCES: Readonly<Record<string, SourceRemedy>> = {
  OrderMirrorPaused: () => ["Resume polling…", "resume"],
  OrderMirrorGaps: readGap,
  OrderMirrorIncomplete: readGap,
  OrderMirrorProofTakenBack: readGap,
  OrderMirrorExceptions: () => ["Read these orders again now…", "reread"],
  OrderMirrorQuarantine: ({ quarantined }) => [
    `Process ${describeBoundedCount(quarantined)} again or dismiss them…`,
    "quarantine/all",
  ],
};

const endpointQuery = (endpointId: string) => `?endpoint=${encodeURIComponent(endpointId)}`;

const OF_OTHERS: Readonly<Record<string, (subject: string) => Remedy>> = {
  OrderMirrorDeadJobs: (queue) => [
    "Retry the failed jobs…",
    `/ops/queues/queue/${encodeURIComponent(queue)}?status=failed`,
  ],
  OrderMirrorOutgoingFailing: (endpoint) => [
    "Pause this endpoint…",
    `/ops/outgoing-pause${endpointQuery(endpoint)}`,
  ],
  OrderMirrorOutgoingGivenUp: (endpoint) => [
    "Send these messages again…",
    `/ops/outgoing-retry${endpointQuery(endpoint)}`,
  ],
};

/**
 * What an operator can do about a condition from these pages; null: a person is needed elsewhere, at a server, at the
 * provider, or at the configuration. @internal
 */
export function findRemedy({ condition, subject }: Holding, standing: Standing | undefined): Remedy | null {
  const other = OF_OTHERS[condition.name]?.(subject);
  if (other !== undefined) return other;
  const [label, page] = (standing && OF_SOURCES[condition.name]?.(standing)) ?? [];
  return label === undefined ? null : [label, `/ops/${page}${sourceQuery(subject)}`];
}

/** The button for a condition; for those who may not press it disabled, with the reason. Nothing without a remedy. */
export function renderRemedy(
  holding: Holding,
  { standing, viewer }: { standing: Standing | undefined; viewer: Viewer },
): Html {
  const [label, address] = findRemedy(holding, standing) ?? [];
  if (label === undefined) return html``;
  return mayAct(viewer)
    ? html`<a class="button" href="${address}">${label}</a>`
    : html`<button disabled>${label}</button> <span class="dim">only for operators</span>`;
}
