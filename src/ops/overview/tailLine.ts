import { VIAS } from "../../domain/order/observation.ts";
import { VERDICTS } from "../../apply/batchRow.sql.ts";
import type { DecisionRow } from "../../changes/changeTail.sql.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { describeDelay, linkOrder, VERDICT_CLASS } from "./phrases.ts";
import { renderInstant } from "../../html/marks.ts";

const NANOS_PER_SECOND = 1e9;

/** The decisions to show; null means no restriction. */
export interface TailFilter {
  readonly source: string | null;
  readonly via: string | null;
  readonly verdict: string | null;
}

/** Unknown words are ignored: a mistyped address shows everything. */
export function parseTailFilter(query: Readonly<Record<string, unknown>>): TailFilter {
  const pick = (words: readonly string[], value: unknown) => words.find((word) => word === value) ?? null;
  const { source } = query;
  return {
    source: typeof source === "string" && source !== "" ? source : null,
    via: pick(VIAS, query["via"]),
    verdict: pick(VERDICTS, query["verdict"]),
  };
}

export function fitsTail({ source, via, verdict }: TailFilter, decision: DecisionRow): boolean {
  return (
    (source === null || source === decision.sourceId) &&
    (via === null || via === decision.via) &&
    (verdict === null || verdict === decision.verdict)
  );
}

export function renderTailLine(decision: DecisionRow): Html {
  const { sourceId, via, verdict, conflict, eventType, version, seenAt } = decision;
  const lag = version === null ? "" : describeDelay(Number(seenAt - version) / NANOS_PER_SECOND);
  return html`<li>
    ${renderInstant(seenAt)} <span class="via">${via}</span> <span class="order">${linkOrder(decision)}</span>
    <span class="verdict ${VERDICT_CLASS[verdict] ?? ""}">${verdict}${conflict ? " (conflict)" : ""}</span>
    <span>${describeMove(decision)}</span>
    <span class="dim">${sourceId} ${eventType ?? ""}${lag === "" ? "" : ` · ${lag} after the change`}</span>
  </li> `;
}

function describeMove({ status, previousStatus }: DecisionRow): string {
  if (status === null) return "";
  return previousStatus === null || previousStatus === status ? status : `${previousStatus} → ${status}`;
}
