import type { Decision } from "../../apply/applySubjects.ts";
import { millisFromInstant } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { escapeControls } from "../../runtime/telemetry/escapeControls.ts";
import { formatSpan } from "./terminal.ts";
import type { Paint } from "./terminal.ts";

const VIA_WIDTH = 8;
const REFERENCE_WIDTH = 12;
const MOVE_WIDTH = 42;
const LABEL_WIDTH = 11;

/** A page with more new orders than this is history being imported; its orders share one line. */
const NEW_LINES_MAX = 8;

/** The parts of a decision that a line shows. */
type ShownDecision = Omit<Decision, "storedVersion">;

type Label =
  | "applied"
  | "new"
  | "repaired"
  | "corrected"
  | "stale"
  | "refuted"
  | "duplicate"
  | "quarantined"
  | "ignored"
  | "gone";

/**
 * One line for one decision; undefined for a poll that only confirmed known state, which would be noise.
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
    paint(STYLES[label], label.padEnd(LABEL_WIDTH)),
    paint("dim", explain(decision, label, now)),
  ];
  return columns.join("  ").trimEnd();
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

const STYLES: Readonly<Record<Label, Parameters<Paint>[0]>> = {
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
};

function labelOf({ verdict, via, status, previousStatus }: ShownDecision): Label | undefined {
  switch (verdict) {
    case "applied":
      if (via === "webhook" || via === "write" || previousStatus === status) return "applied";
      return previousStatus === null ? "new" : "repaired";
    case "confirmed":
      return undefined;
    case "duplicate":
      return via === "webhook" ? "duplicate" : undefined;
    case "corrected":
    case "stale":
    case "refuted":
    case "ignored":
    case "quarantined":
    case "gone":
      return verdict;
    default: {
      const never: never = verdict;
      return never;
    }
  }
}

function describeMove({ status, previousStatus }: ShownDecision): string {
  if (previousStatus === null || previousStatus === status) return status ?? "–";
  return `${previousStatus} → ${status ?? "–"}`;
}

function explain(decision: ShownDecision, label: Label, now: Instant): string {
  const age =
    decision.version === null ? "" : formatSpan(Math.max(0, millisFromInstant(now - decision.version)));
  switch (label) {
    case "applied":
      return age;
    case "new":
      return "first seen by a read";
    case "repaired":
      return `its event was lost; found after ${age}`;
    case "corrected":
      return "a read refuted what was claimed";
    case "gone":
      return "the provider has no such order";
    case "refuted":
      return "a read had shown otherwise";
    case "stale":
      return "a newer state was known";
    case "duplicate":
      return "this state was known";
    case "quarantined":
    case "ignored":
      return decision.reason ?? "";
    default: {
      const never: never = label;
      return never;
    }
  }
}
