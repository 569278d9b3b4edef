import type { Standing } from "../../health/standing.sql.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { describeBoundedCount, describeMinute, sourceQuery } from "./phrases.ts";

/** What an operator can do about a condition from the overview; nothing where only a person elsewhere can help. */
export function renderRemedy(condition: string, standing: Standing): Html {
  const { sourceId, oldestGap, gaps, quarantined } = standing;
  const open = (page: string, label: string) =>
    html`<p><a class="button" href="/ops/${page}${sourceQuery(sourceId)}">${label}</a></p>`;
  switch (condition) {
    case "OrderMirrorPaused":
      return open("resume", "Resume polling…");
    case "OrderMirrorGaps":
      return oldestGap === null
        ? html``
        : open(
            "gap",
            `Read ${describeMinute(oldestGap.since)} to ${describeMinute(oldestGap.until)} now${gaps > 1 ? ` (the oldest of ${gaps})` : ""}…`,
          );
    case "OrderMirrorQuarantine":
      return open("quarantine/all", `Process ${describeBoundedCount(quarantined)} again or dismiss them…`);
    default:
      return html``;
  }
}
