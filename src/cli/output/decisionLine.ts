import type { Decision } from "../../apply/applySubjects.ts";
import { millisFromInstant, type Instant } from "../../domain/order/instant.ts";
import { VERDICT_SENTENCES } from "../../apply/verdicts.ts";
import { escapeControls } from "../../process/telemetry/escapeControls.ts";
import { formatSpan, type Paint } from "./terminal.ts";

const VIA_WIDTH = 8;
const REFERENCE_WIDTH = 12;
const MOVE_WIDTH = 42;
const LABEL_WIDTH = 11;

/** A page with more new orders than this is history being imported; its orders share one line. */
const NEW_LINES_MAX = 8;

/** The parts of a decision that a line shows. */
type ShownDecision = Omit<Decision, "storedVersion">;

/** Names of a decision in a line, and their style. */
const LABELS = {
  applied: "green",
  new: "cyan",
  repaired: "magenta",
  corrected: "magenta",
  stale: "dim",
  refuted: "red",
  duplicate: "dim",
  quarantined: "red",
  ignored: "dim",
  gone: "magenta",
} as const satisfies Readonly<Record<string, Parameters<Paint>[0]>>;
type Label = keyof typeof LABELS;

/**
 * A decision's line; undefined for a poll that only confirmed known state, which would be noise.
 *
 * `repaired` marks a change that only a read of ours revealed. A new order does not count: the spec lists no event for
 * creation ("Events"), so reads are how new orders are found.
 */
export function formatDecision(
  decision: ShownDecision,
  context: { now: Instant; paint: Paint },
): string | undefined {
  const { now, paint } = context;
  const label = labelOf(decision);
  if (label === undefined) return undefined;
  const time = new Date(millisFromInstant(now)).toTimeString().slice(0, 8);
  const columns = [
    paint("dim", time),
    decision.via.padEnd(VIA_WIDTH),
    escapeControls(decision.reference ?? "–").padEnd(REFERENCE_WIDTH),
    escapeControls(describeMove(decision)).padEnd(MOVE_WIDTH),
    paint(LABELS[label], label.padEnd(LABEL_WIDTH)),
    paint("dim", explain(label, decision, now)),
  ];
  return columns.join("  ").trimEnd();
}

function explain(label: Label, { version, reason }: ShownDecision, now: Instant): string {
  const age = version === null ? "" : formatSpan(Math.max(0, millisFromInstant(now - version)));
  if (label === "applied") return age;
  if (label === "new") return "first seen by a read";
  if (label === "repaired") return `no event had brought it; found after ${age}`;
  return reason ?? VERDICT_SENTENCES[label];
}

/** The lines of one batch. */
export function formatDecisions(
  decisions: readonly ShownDecision[],
  context: { now: Instant; paint: Paint },
): string[] {
  const fresh = decisions.filter((decision) => labelOf(decision) === "new");
  const counted = fresh.length > NEW_LINES_MAX ? fresh : [];
  const lines = decisions
    .filter((decision) => !counted.includes(decision))
    .map((decision) => formatDecision(decision, context))
    .filter((line) => line !== undefined);
  const [first] = counted;
  if (first === undefined) return lines;
  const summary = { ...first, reference: "…", status: `${counted.length} orders`, previousStatus: null };
  return [...lines, formatDecision(summary, context) ?? ""];
}

function labelOf({ verdict, via, status, previousStatus }: ShownDecision): Label | undefined {
  if (verdict === "confirmed" || (verdict === "duplicate" && via !== "webhook")) return undefined;
  const isRepair = via !== "webhook" && via !== "write" && previousStatus !== status;
  if (verdict !== "applied" || !isRepair) return verdict;
  return previousStatus === null ? "new" : "repaired";
}

function describeMove({ status, previousStatus }: ShownDecision): string {
  if (previousStatus === null || previousStatus === status) return status ?? "–";
  return `${previousStatus} → ${status ?? "–"}`;
}
