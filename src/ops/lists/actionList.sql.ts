import { bothWays } from "../../database/keyset.sql.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { describeCount, linkOrder } from "../overview/phrases.ts";
import type { ListPage } from "./list.ts";
import { selectList, sentence, SOURCE, text, time } from "./selectList.sql.ts";
import type { SelectedRow } from "./selectList.sql.ts";

/** What the actions are called in the log, and what people read. */
const ACTIONS: Readonly<Record<string, string>> = {
  log_in: "Logged in",
  log_out: "Logged out",
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
  export: "Exported",
  erase: "Erased",
  adopt: "Adopted a source",
  outgoing: "Outgoing webhooks",
  queue: "Queue",
};
const ROLES = ["operator", "viewer", "command"];
/** They affect nothing but themselves. */
const LOGINS = ["log_in", "log_out"];

const describeAction = (action: string): string => ACTIONS[action] ?? action.replaceAll("_", " ");

/** The actions on the ops pages and of commands. */
export const ACTION_LIST = selectList({
  title: "Audit log",
  note: "All actions on these pages and by commands. Each is recorded before it is carried out.",
  empty: "Nobody has done anything yet.",
  section: "actions",
  filters: {
    action: { label: "Action", words: Object.keys(ACTIONS), describe: describeAction },
    role: { label: "Role", words: ROLES },
    person: { label: "Person", words: null },
  },
  columns: [
    time("When", "at"),
    {
      title: "Person",
      select: ["person"],
      show: (person: string | null) =>
        person === null
          ? "–"
          : html`<a href="/ops/actions?person=${encodeURIComponent(person)}">${person}</a>`,
    },
    text("Role", "role"),
    { title: "Action", select: ["action"], show: describeAction },
    SOURCE,
    { title: "What", select: ["action", "source_id", "target"], show: renderTarget },
    { title: "How many", kind: "number", select: ["action", "affected::float8"], show: describeExtent },
    sentence("Note", "note"),
  ],
  sorts: bothWays({ action_id: "bigint" }),
  from: ({ condition, order }) =>
    `from mirror.ops_actions where ($1::text is null or source_id = $1) and ${condition}
       and ($4::text is null or action = $4) and ($5::text is null or role = $5)
       and ($6::text is null or strpos(lower(person), lower($6)) > 0)
     ${order} limit $2`,
  above: renderDone,
});

/** What was just done, and the way to the people who are logged in. */
function renderDone({ list, rows, did, viewer }: ListPage<SelectedRow>): Html {
  const done = rows.find(({ position: [actionId] }) => actionId === did);
  const show = (title: string) =>
    done && list.columns.find((column) => column.title === title)?.show(done, viewer);
  const words =
    done !== undefined &&
    html`<p class="verdict-line" role="status">
      ${show("Action")}: ${show("What")} (${show("How many")}).
      <a href="/ops">Overview</a>
    </p>`;
  return html`${words}`;
}

function describeExtent(action: string, affected: number | null): string {
  if (affected !== null) return describeCount(affected);
  return LOGINS.includes(action) ? "–" : "end not recorded";
}

const ONE_QUARANTINED = /^quarantine (\d+)$/;

function renderTarget(action: string, sourceId: string | null, target: string | null): string | Html {
  if (target === null) return "–";
  if (action === "refetch" && sourceId !== null) {
    return linkOrder({ sourceId, reference: target });
  }
  const id = action === "dismiss" ? ONE_QUARANTINED.exec(target)?.[1] : undefined;
  return id === undefined ? target : html`<a href="/ops/quarantine/${id}">${target}</a>`;
}
