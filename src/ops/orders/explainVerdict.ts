import type { TimelineEntry } from "./timeline.sql.ts";
import type { UnannouncedChange } from "./opsOrder.sql.ts";

const READS = new Set<TimelineEntry["via"]>(["poll", "backfill", "refetch", "verify"]);

/** Why the mirror decided so on an observation, in one sentence. */
export function explainVerdict(entry: TimelineEntry): string {
  const { verdict, reason, settled, conflict } = entry;
  const sentence = { applied, confirmed, stale, duplicate, ignored, quarantined }[verdict];
  const clash = conflict ? " The same updatedAt was known with other content." : "";
  return `${sentence({ reason, settled })}${clash}`;
}

type Circumstance = Pick<TimelineEntry, "reason" | "settled">;

const because = (sentence: string, reason: string | null) =>
  reason === null ? `${sentence}.` : `${sentence}: ${reason}.`;

const applied = ({ reason }: Circumstance) =>
  because("It is newer than everything known until then, so it became the state", reason);
const confirmed = () =>
  "The same content was read again after nothing could change within that updatedAt any more.";
const stale = ({ reason }: Circumstance) =>
  because("A newer state was known already, and the mirror never goes back", reason);
const duplicate = ({ reason }: Circumstance) => because("Exactly this state was known already", reason);
const ignored = ({ reason }: Circumstance) => because("There was nothing in it to apply", reason);
const quarantined = ({ reason }: Circumstance) =>
  because("It could not be applied and waits for a person", reason);

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
