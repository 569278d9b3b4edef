import type { TimelineEntry } from "./timeline.sql.ts";
import type { UnannouncedChange } from "./opsOrder.sql.ts";

const READS = new Set<TimelineEntry["via"]>(["poll", "backfill", "refetch", "verify"]);

const SENTENCES: Readonly<Record<TimelineEntry["verdict"], string>> = {
  applied: "It is the newest state",
  corrected: "A read showed this state, which refutes the later updatedAt known before",
  confirmed: "A later read showed the same content",
  stale: "A newer state was already known",
  refuted: "A read made after that updatedAt had not shown it, so it was not applied",
  duplicate: "Exactly this state was already known",
  ignored: "It contains nothing to apply",
  quarantined: "It could not be applied and is in quarantine",
  gone: "The provider answered that the order does not exist, so it is no longer served",
};

/** Explains the decision on an observation in one sentence. */
export function explainVerdict({ verdict, reason, conflict }: TimelineEntry): string {
  const because = reason === null || verdict === "confirmed" ? "" : `: ${reason}`;
  const clash = conflict ? " The same updatedAt was already known with different content." : "";
  return `${SENTENCES[verdict]}${because}.${clash}`;
}

const ANNOUNCEMENTS: Readonly<Record<UnannouncedChange["state"], string>> = {
  waiting: "No event has announced it yet; one may still arrive.",
  late: "Its event arrived after this read: late, not lost.",
  lost: "Its event never arrived: lost, and repaired by this read.",
  not_announced: "The provider does not announce changes to this status.",
};

/** How a change that a read found first relates to events, in one sentence; null if there is nothing to say. */
export function explainAnnouncement(
  entry: TimelineEntry,
  unannounced: readonly UnannouncedChange[],
): { lost: boolean; sentence: string } | null {
  if (entry.verdict !== "applied" || !READS.has(entry.via)) return null;
  const change = unannounced.find(({ version }) => version === entry.version);
  if (change === undefined) return null;
  return { lost: change.state === "lost", sentence: ANNOUNCEMENTS[change.state] };
}
