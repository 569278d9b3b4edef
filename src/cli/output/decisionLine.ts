import type { Decision } from "../../apply/applySubjects.ts";
import { millisFromInstant, type Instant } from "../../domain/order/instant.ts";
import { escapeControls } from "../../runtime/telemetry/escapeControls.ts";
import { formatSpan, type Paint } from "./terminal.ts";

const VIA_WIDTH = 8;
const REFERENCE_WIDTH = 12;
const MOVE_WIDTH = 42;
const LABEL_WIDTH = 11;

/** A page with more new orders than this is history being imported; its orders share one line. */
const NEW_LINES_MAX = 8;

/** The parts of a decision that a line shows. */
type ShownDecision = Omit<Decision, "storedVersion">;

interface Described {
  readonly style: Parameters<Paint>[0];
  /** Why it was decided; `age` is that of the version, for people. */
  readonly explain: (age: string, decision: ShownDecision) => string;
}

/** What a line calls a decision. */
const LABELS = {
  applied: { style: "green", explain: (age) => age },
  new: { style: "cyan", explain: () => "first seen by a read" },
  repaired: { style: "magenta", explain: (age) => `no event had brought it; found after ${age}` },
  corrected: { style: "magenta", explain: () => "a read refuted what was claimed" },
  stale: { style: "dim", explain: () => "a newer state was known" },
  refuted: { style: "red", explain: () => "a read had shown otherwise" },
  duplicate: { style: "dim", explain: () => "this state was known" },
  quarantined: { style: "red", explain: (_age, { reason }) => reason ?? "" },
  ignored: { style: "dim", explain: (_age, { reason }) => reason ?? "" },
  gone: { style: "magenta", explain: () => "the provider has no such order" },
} satisfies Readonly<Record<string, Described>>;

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
  const { style, explain }: Described = LABELS[label];
  const { version } = decision;
  const age = version === null ? "" : formatSpan(Math.max(0, millisFromInstant(now - version)));
  const time = new Date(millisFromInstant(now)).toTimeString().slice(0, 8);
  const columns = [
    paint("dim", time),
    decision.via.padEnd(VIA_WIDTH),
    escapeControls(decision.reference ?? "–").padEnd(REFERENCE_WIDTH),
    escapeControls(describeMove(decision)).padEnd(MOVE_WIDTH),
    paint(style, label.padEnd(LABEL_WIDTH)),
    paint("dim", explain(age, decision)),
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

function labelOf({ verdict, via, status, previousStatus }: ShownDecision): keyof typeof LABELS | undefined {
  if (verdict === "confirmed" || (verdict === "duplicate" && via !== "webhook")) return undefined;
  const isRepair = via !== "webhook" && via !== "write" && previousStatus !== status;
  if (verdict !== "applied" || !isRepair) return verdict;
  return previousStatus === null ? "new" : "repaired";
}

function describeMove({ status, previousStatus }: ShownDecision): string {
  if (previousStatus === null || previousStatus === status) return status ?? "–";
  return `${previousStatus} → ${status ?? "–"}`;
}
