import { observeRead } from "../domain/order/observation.ts";
import type { Observation, ReadTime, Via } from "../domain/order/observation.ts";
import type { Snapshot } from "../domain/order/order.ts";
import type { EventReader, Mode, UnreadableOrder } from "../domain/source/orderSource.ts";
import { readPendingEvents } from "./inboxReads.sql.ts";
import { applySubjects } from "./applySubjects.ts";
import type { Alongside, ApplyDeps, Decision } from "./applySubjects.ts";
import { toInterrupted } from "./errors.ts";
import { interpretEvent } from "./interpretEvent.ts";
import type { Subject } from "./subject.ts";

/** The content of one answer of the provider. */
export interface Reads {
  readonly sourceId: string;
  readonly via: Exclude<Via, "webhook">;
  readonly snapshots: readonly Snapshot[];
  /** Elements that could not be read as orders; they go to quarantine in full. */
  readonly unreadable?: readonly UnreadableOrder[];
  readonly time: ReadTime;
}

export interface Apply {
  /** Decides on the events at these inbox positions; skips decided ones. */
  readonly applyEvents: (seqs: readonly number[]) => Promise<Decision[]>;
  /**
   * Decides on what reads of ours showed; known content is a `duplicate` and writes nothing. With `alongside`, its
   * writes and all decisions are committed together or not at all.
   */
  readonly applyReads: (reads: Reads | readonly Reads[], alongside?: Alongside) => Promise<Decision[]>;
}

/**
 * Makes the two ways into the mirror, which meet in applySubjects. If Postgres is unavailable, both reject as
 * applySubjects does, and may then be called again with the same input.
 */
export function makeApply(
  deps: ApplyDeps & {
    readonly modes: ReadonlyMap<string, Mode>;
    /** How each source announces changes. */
    readonly events: Pick<EventReader, "readEvent">;
  },
): Apply {
  const { readEvent } = deps.events;
  const modeOf = (sourceId: string): Mode => {
    const mode = deps.modes.get(sourceId);
    if (mode === undefined) throw new TypeError(`the source ${sourceId} is not configured`);
    return mode;
  };
  return {
    async applyEvents(seqs) {
      const events = await readPendingEvents(deps.pool, seqs).catch((error: unknown) => {
        throw toInterrupted(error, "Postgres could not read the inbox now.");
      });
      // An event of an unconfigured source waits in the inbox until the source is configured again.
      const known = events.filter((event) => deps.modes.has(event.sourceId));
      return applySubjects(
        deps,
        known.map((event) => interpretEvent(event, { mode: modeOf(event.sourceId), readEvent })),
      );
    },
    applyReads: (reads, alongside) =>
      applySubjects(
        deps,
        [reads].flat().flatMap((each) => toSubjects(each, modeOf(each.sourceId))),
        alongside,
      ),
  };
}

function toSubjects(reads: Reads, mode: Mode): Subject[] {
  const { sourceId, via, snapshots, unreadable = [], time } = reads;
  const common = { sourceId, via, event: null } as const;
  const observed = snapshots.map((snapshot): Subject => {
    if ((snapshot.fields.livemode ?? mode === "live") !== (mode === "live")) {
      const detail = `the order belongs to the other mode; its source is ${mode}`;
      const { reference } = snapshot.fields;
      const why = { reason: "wrong_mode", detail, reference } as const;
      return { kind: "quarantined", ...common, ...why, raw: snapshot.raw };
    }
    const observation: Observation = observeRead({ sourceId, via, snapshot, time });
    return { kind: "observation", ...common, observation };
  });
  const quarantined = unreadable.map(({ raw, detail, reference }): Subject => {
    return { kind: "quarantined", ...common, reason: "unreadable_order", detail, reference, raw };
  });
  return [...observed, ...quarantined];
}
