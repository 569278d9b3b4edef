import type { TimelineEntry } from "./timeline.sql.ts";
import type { UnannouncedChange } from "./opsOrder.sql.ts";

const READS = new Set<TimelineEntry["via"]>(["poll", "backfill", "refetch", "verify"]);

/** Why the mirror decided so on an observation, in one sentence. */
export function explainVerdict(entry: TimelineEntry): string {
  const { verdict, reason, conflict } = entry;
  const sentence = SENTENCES[verdict];
  const clash = conflict ? " The same updatedAt was known with other content." : "";
  return `${sentence({ reason })}${clash}`;
}

type Circumstance = Pick<TimelineEntry, "reason">;

const because = (sentence: string, reason: string | null) =>
  reason === null ? `${sentence}.` : `${sentence}: ${reason}.`;

const applied = ({ reason }: Circumstance) =>
  because("It is newer than everything known until then, so it became the state", reason);
const confirmed = () => "A later read showed the same content.";
const corrected = ({ reason }: Circumstance) =>
  because("A read showed this, so what was known with a later updatedAt is refuted and taken back", reason);
const refuted = ({ reason }: Circumstance) =>
  because("A read made after that updatedAt had not shown it, so it does not count", reason);
const gone = ({ reason }: Circumstance) =>
  because("The provider answered that there is no such order, so it is no longer served", reason);
const stale = ({ reason }: Circumstance) => because("A newer state was known already", reason);
const duplicate = ({ reason }: Circumstance) => because("Exactly this state was known already", reason);
const ignored = ({ reason }: Circumstance) => because("There was nothing in it to apply", reason);
const quarantined = ({ reason }: Circumstance) =>
  because("It could not be applied and waits for a person", reason);

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

/** How a change that a read found first stands to the events, in one sentence; null where there is nothing to say. */
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
      return { lost: false, sentence: "No event has announced it yet; one may still come." };
    case "late":
      return { lost: false, sentence: "Its event came after this read: late, not lost." };
    case "lost":
      return { lost: true, sentence: "Its event never came: lost, and repaired by this read." };
    case "not_announced":
      return { lost: false, sentence: "The provider announces no change to this status." };
    default: {
      const never: never = change?.state as never;
      return never;
    }
  }
}
