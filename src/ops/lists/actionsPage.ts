import type { RecordedAction } from "./opsActions.sql.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { LIST_LINES, renderList } from "./listPage.ts";
import type { Viewer } from "../auth/viewer.ts";
import { orderAddress, renderInstant } from "../overview/phrases.ts";

/** The actions on the ops pages and of commands, newest first. */
export function renderActions(
  actions: readonly RecordedAction[],
  /** `did`: the number of an action that was just carried out; empty: none. */
  { viewer, did }: { viewer: Viewer; did: string },
): string {
  const done = actions.find(({ actionId }) => actionId === did);
  const oldest = actions.length < LIST_LINES ? undefined : actions.at(-1);
  return renderList({
    title: "Audit log",
    section: "actions",
    note: "All actions on these pages and by commands. Each is recorded before it is carried out.",
    columns: ["When", "Person", "Role", "Action", "Source", "What", "How many", "Note"],
    rows: actions.map((action) => [
      renderInstant(action.at),
      action.person ?? "–",
      action.role,
      action.action,
      action.sourceId ?? "–",
      renderTarget(action),
      describeExtent(action),
      action.note ?? "–",
    ]),
    context: { viewer, sourceId: null },
    before:
      done === undefined
        ? html``
        : html`<p class="verdict-line" role="status">
            Done: ${done.action.replaceAll("_", " ")}, ${done.target ?? ""}: ${describeExtent(done)} affected.
            <a href="/ops">Overview</a>
          </p>`,
    after:
      oldest === undefined ? html`` : html`<p><a href="/ops/actions?before=${oldest.actionId}">Older</a></p>`,
  });
}

function describeExtent({ action, affected }: RecordedAction): string {
  if (affected !== null) return affected.toLocaleString("en-US");
  return action === "log_in" || action === "log_out" ? "–" : "end not recorded";
}

const ONE_QUARANTINED = /^quarantine (\d+)$/;

function renderTarget({ action, sourceId, target }: RecordedAction): string | Html {
  if (target === null) return "–";
  if (action === "refetch" && sourceId !== null) {
    return html`<a href="${orderAddress({ sourceId, reference: target })}">${target}</a>`;
  }
  const id = action === "dismiss" ? ONE_QUARANTINED.exec(target)?.[1] : undefined;
  return id === undefined ? target : html`<a href="/ops/quarantine/${id}">${target}</a>`;
}
