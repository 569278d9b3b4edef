import type { TimelineEntry } from "./timeline.sql.ts";
import type { UnannouncedChange } from "./opsOrder.sql.ts";

const READS = new Set<TimelineEntry["via"]>(["poll", "backfill", "refetch", "verify"]);

/** Explains the decision on an observation in one sentence. */
export function explainVerdict(entry: TimelineEntry): string {
  const { verdict, reason, conflict } = entry;
  const sentence = SENTENCES[verdict];
  const clash = conflict ? " The same updatedAt was already known with different content." : "";
  return `${sentence({ reason })}${clash}`;
}

type Circumstance = Pick<TimelineEntry, "reason">;

const because = (sentence: string, reason: string | null) =>
  reason === null ? `${sentence}.` : `${sentence}: ${reason}.`;

const applied = ({ reason }: Circumstance) => because("It is the newest state", reason);
const confirmed = () => "A later read showed the same content.";
const corrected = ({ reason }: Circumstance) =>
  because("A read showed this state, which refutes the later updatedAt known before", reason);
const refuted = ({ reason }: Circumstance) =>
  because("A read made after that updatedAt had not shown it, so it was not applied", reason);
const gone = ({ reason }: Circumstance) =>
  because("The provider answered that the order does not exist, so it is no longer served", reason);
const stale = ({ reason }: Circumstance) => because("A newer state was already known", reason);
const duplicate = ({ reason }: Circumstance) => because("Exactly this state was already known", reason);
const ignored = ({ reason }: Circumstance) => because("It contains nothing to apply", reason);
const quarantined = ({ reason }: Circumstance) =>
  because("It could not be applied and is in quarantine", reason);

const SENTENCES: Readonly<Record<TimelineEntry["verdict"], (circumstance: Circumstance) => string>> = {
  applied,
  corrected,
  confirmed,
  stale,
  refuted,
  duplicate,
  ignored,
  quarantined,
  gone,
};

/** How a change that a read found first relates to events, in one sentence; null if there is nothing to say. */
export function explainAnnouncement(
  entry: TimelineEntry,
  unannounced: readonly UnannouncedChange[],
): { lost: boolean; sentence: string } | null {
  if (entry.verdict !== "applied" || !READS.has(entry.via)) return null;
  const change = unannounced.find(({ version }) => version === entry.version);
  switch (change?.state) {
    case undefined:
      return null;
    case "waiting":
      return { lost: false, sentence: "No event has announced it yet; one may still arrive." };
    case "late":
      return { lost: false, sentence: "Its event arrived after this read: late, not lost." };
    case "lost":
      return { lost: true, sentence: "Its event never arrived: lost, and repaired by this read." };
    case "not_announced":
      return { lost: false, sentence: "The provider does not announce changes to this status." };
    default: {
      const never: never = change?.state as never;
      return never;
    }
  }
}
