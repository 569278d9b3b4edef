import type { Holding } from "../../health/judge.ts";
import type { Standing } from "../../health/standing.sql.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { mayAct } from "../auth/viewer.ts";
import type { Viewer } from "../auth/viewer.ts";
import { describeBoundedCount, sourceQuery } from "../overview/phrases.ts";

/** The page that says what would be done, and does it; with the words of the button that leads there. */
type Remedy = readonly [page: string, label: string];

const readGap = ({ gaps }: Standing): Remedy | null =>
  gaps === 0 ? null : ["gap", gaps === 1 ? "Read this gap now…" : `Read ${gaps} gaps now…`];

/**
 * What an operator can do from these pages. The other conditions need a person elsewhere: at a server, at the provider,
 * or at the configuration.
 */
const REMEDIES: Readonly<Record<string, (standing: Standing) => Remedy | null>> = {
  OrderMirrorPaused: () => ["resume", "Resume polling…"],
  OrderMirrorGaps: readGap,
  OrderMirrorIncomplete: readGap,
  OrderMirrorProofTakenBack: readGap,
  OrderMirrorExceptions: () => ["reread", "Read these orders again now…"],
  OrderMirrorQuarantine: ({ quarantined }) => [
    "quarantine/all",
    `Process ${describeBoundedCount(quarantined)} again or dismiss them…`,
  ],
};

/** The button for a condition; for those who may not press it disabled, with the reason. Nothing without a remedy. */
export function renderRemedy(
  { condition, subject }: Holding,
  { standing, viewer }: { standing: Standing | undefined; viewer: Viewer },
): Html {
  const [page, label] = (standing && REMEDIES[condition.name]?.(standing)) ?? [];
  if (page === undefined) return html``;
  return mayAct(viewer, subject)
    ? html`<a class="button" href="/ops/${page}${sourceQuery(subject)}">${label}</a>`
    : html`<button disabled>${label}</button> <span class="dim">only for operators of this source</span>`;
}
