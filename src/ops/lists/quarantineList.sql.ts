import { bothWays } from "../../database/keyset.sql.ts";
import { QUARANTINE_STATES } from "../../quarantine/quarantine.sql.ts";
import { mayAct } from "../auth/viewer.ts";
import { html } from "../../runtime/http/html.ts";
import { describeReason, REASONS, writeView } from "./quarantinePage.ts";
import { ORDER, selectList, sentence, SOURCE, text, time } from "./selectList.sql.ts";

/** The quarantine, open entries unless others are asked for. */
export const QUARANTINE_LIST = selectList({
  title: "Quarantine",
  section: "quarantine",
  note: "Authenticated input that could not be applied, kept in full, and orders that could not be read one by one.",
  empty: "Nothing is in quarantine.",
  filters: {
    state: { label: "State", words: QUARANTINE_STATES, standard: "open" },
    reason: {
      label: "Reason",
      words: Object.keys(REASONS),
      describe: (reason) => describeReason(reason).name,
    },
  },
  columns: [
    {
      title: "Number",
      select: ["quarantine_id::text"],
      show: (id: string) => html`<a href="/ops/quarantine/${id}">${id}</a>`,
    },
    time("When", "quarantined_at"),
    SOURCE,
    ORDER,
    text("Via", "via"),
    { title: "Why", select: ["reason"], show: (reason: string) => describeReason(reason).name },
    sentence("Detail", "detail"),
  ],
  sorts: bothWays({ quarantine_id: "bigint" }),
  from: ({ condition, order }) =>
    `from mirror.quarantine where ($1::text is null or source_id = $1) and ${condition}
       and state = $4 and ($5::text is null or reason = $5)
     ${order} limit $2`,
  above: ({ query: { sourceId, chosen }, rows, viewer }) => {
    const { state, reason = null } = chosen;
    if (rows.length === 0 || state !== "open" || !mayAct(viewer)) return false;
    return html`<p>
      <a class="button" href="/ops/quarantine/all${writeView({ state, sourceId, reason })}"
        >Process all of these again, or dismiss them…</a
      >
    </p>`;
  },
});
