import type { RecordedAction } from "./opsActions.sql.ts";
import { ACTION_ROWS } from "./opsActions.sql.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { describeCount, linkOrder } from "../overview/phrases.ts";
import { renderInstant } from "../../html/marks.ts";
import type { List, ListPage } from "./list.ts";

/** What the actions are called in the log, and what people read. */
const ACTIONS: Readonly<Record<string, string>> = {
  log_in: "Logged in",
  log_out: "Logged out",
  end_session: "Ended a session",
  refetch: "Read an order again",
  retry: "Processed again",
  dismiss: "Dismissed",
  pause: "Paused polling",
  resume: "Resumed polling",
  read_gaps: "Read gaps",
  reread: "Read orders again",
  backfill: "Backfill",
  verify: "Verification",
  cancel: "Cancelled",
  certify: "Certified",
  export: "Exported",
  erase: "Erased",
  adopt: "Adopted a source",
  outgoing: "Outgoing webhooks",
  retry_jobs: "Retried jobs",
  queue: "Queue",
};
const ROLES = ["operator", "viewer", "command"];
/** They affect nothing but themselves. */
const LOGINS = ["log_in", "log_out"];

const describeAction = (action: string): string => ACTIONS[action] ?? action.replaceAll("_", " ");

/** The actions on the ops pages and of commands. */
export const ACTION_LIST: List<RecordedAction> = {
  title: "Audit log",
  note: "All actions on these pages and by commands. Each is recorded before it is carried out.",
  empty: "Nobody has done anything yet. Logins, retries, pauses and all other actions appear here.",
  section: "actions",
  ...ACTION_ROWS,
  filters: {
    action: { label: "Action", words: Object.keys(ACTIONS), describe: describeAction },
    role: { label: "Role", words: ROLES },
    person: { label: "Person", words: null },
  },
  columns: [
    { title: "When", show: ({ at }) => renderInstant(at) },
    {
      title: "Person",
      show: ({ person }) =>
        person === null
          ? "–"
          : html`<a href="/ops/actions?person=${encodeURIComponent(person)}">${person}</a>`,
    },
    { title: "Role", show: ({ role }) => role },
    { title: "Action", show: ({ action }) => describeAction(action) },
    { title: "Source", show: ({ sourceId }) => sourceId ?? "–" },
    { title: "What", show: renderTarget },
    { title: "How many", kind: "number", show: describeExtent },
    { title: "Note", kind: "sentence", show: ({ note }) => note ?? "–" },
  ],
  above: renderDone,
};

/** What was just done, and the way to the people who are logged in. */
function renderDone({ rows, did }: ListPage<RecordedAction>): Html {
  const done = rows.find(({ actionId }) => actionId === did);
  const sentence =
    done !== undefined &&
    html`<p class="verdict-line" role="status">
      Done: ${describeAction(done.action)}, ${done.target ?? ""}: ${describeExtent(done)} affected.
      <a href="/ops">Overview</a>
    </p>`;
  return html`${sentence}
    <p><a class="button" href="/ops/sessions">Who is logged in</a></p>`;
}

function describeExtent({ action, affected }: RecordedAction): string {
  if (affected !== null) return describeCount(affected);
  return LOGINS.includes(action) ? "–" : "end not recorded";
}

const ONE_QUARANTINED = /^quarantine (\d+)$/;

function renderTarget({ action, sourceId, target }: RecordedAction): string | Html {
  if (target === null) return "–";
  if (action === "refetch" && sourceId !== null) {
    return linkOrder({ sourceId, reference: target });
  }
  const id = action === "dismiss" ? ONE_QUARANTINED.exec(target)?.[1] : undefined;
  return id === undefined ? target : html`<a href="/ops/quarantine/${id}">${target}</a>`;
}
