import { unlessAway } from "../database/databaseErrors.ts";
import { addSeconds } from "../domain/order/instant.ts";
import {
  CLOCK_TRUST_SECONDS,
  observeEvent,
  observeRead,
  type Observation,
  type ReadTime,
  type Via,
} from "../domain/order/observation.ts";
import type { Snapshot } from "../domain/order/order.ts";
import type { Mode, UnreadableOrder } from "../domain/source/orderSource.ts";
import { readEvent, type ReceivedEvent } from "../wire/events.ts";
import { readPendingEvents, type PendingEvent } from "./applyBatch.sql.ts";
import { applySubjects, BATCH_BYTES_MAX, sizeOf, type ApplyDeps, type Decision } from "./applySubjects.ts";
import type { EventOrigin, Subject } from "./subject.ts";

/** The content of one answer of the provider. */
export interface Reads {
  readonly sourceId: string;
  readonly via: Exclude<Via, "webhook">;
  readonly snapshots: readonly Snapshot[];
  /** Elements that could not be read as orders; they go to quarantine in full. */
  readonly unreadable?: readonly UnreadableOrder[];
  readonly time: ReadTime;
}

/** No batch is halved below this. */
const BATCH_BYTES_LEAST = 65_536;

export interface Apply {
  /** Decides on the events at these inbox positions; skips decided ones. */
  readonly applyEvents: (seqs: readonly number[]) => Promise<Decision[]>;
  /** Decides on what a read of ours showed; known content is a `duplicate` and writes nothing. */
  readonly applyReads: (reads: Reads) => Promise<Decision[]>;
}

/**
 * Makes the two ways into the mirror, which meet in applySubjects. If Postgres is unavailable, both reject as
 * applySubjects does, and may then be called again with the same input.
 */
export function makeApply(deps: ApplyDeps & { readonly modes: ReadonlyMap<string, Mode> }): Apply {
  const modeOf = (sourceId: string): Mode => {
    const mode = deps.modes.get(sourceId);
    if (mode === undefined) throw new TypeError(`the source ${sourceId} is not configured`);
    return mode;
  };
  let bytesMax = BATCH_BYTES_MAX;
  /** Does work whose batches have at most so many bytes; what fails is tried again in smaller ones. */
  async function inSize<Done extends { readonly bytes: number }>(
    work: (limit: number) => Promise<Done>,
  ): Promise<Done> {
    const limit = bytesMax;
    try {
      const done = await work(limit);
      // Only a full batch shows that so many bytes are not too many: small ones that succeed beside it say nothing of it.
      if (done.bytes >= limit) bytesMax = Math.min(bytesMax * 2, BATCH_BYTES_MAX);
      return done;
    } catch (error) {
      // The statement may have timed out by the size of its batch.
      bytesMax = Math.max(bytesMax / 2, BATCH_BYTES_LEAST);
      throw error;
    }
  }

  /** Applies the first of the events at `seqs`; returns the positions that are `left` for the next batch. */
  async function applyFirst(seqs: readonly number[], limit: number) {
    const events = await readPendingEvents(deps.pool, { seqs, bytesMax: limit }).catch((error: unknown) => {
      throw unlessAway(error, "Postgres could not read the inbox now.");
    });
    // An event of an unconfigured source waits in the inbox until the source is configured again.
    const known = events.filter((event) => deps.modes.has(event.sourceId));
    const subjects = known.map((event) => interpretEvent(event, modeOf(event.sourceId)));
    const decisions = await applySubjects(deps, subjects, limit);
    const bytes = events.reduce((sum, { body }) => sum + body.length, 0);
    const last = bytes < limit ? Infinity : (events.at(-1)?.seq ?? Infinity);
    return { decisions, bytes, left: seqs.filter((seq) => seq > last) };
  }

  return {
    async applyEvents(seqs) {
      const decisions: Decision[] = [];
      for (let left = seqs; left.length > 0;) {
        const first = await inSize((limit) => applyFirst(left, limit));
        decisions.push(...first.decisions);
        left = first.left;
      }
      return decisions;
    },
    async applyReads(reads) {
      const subjects = toSubjects(reads, modeOf(reads.sourceId));
      const { decisions } = await inSize(async (limit) => {
        return { decisions: await applySubjects(deps, subjects, limit), bytes: sizeOf(subjects) };
      });
      return decisions;
    },
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

const EVENT_TYPE_LENGTH_MAX = 255;

/**
 * The meaning of an authenticated event for the mirror: an observation of an order, nothing (`ignored`), or input that
 * a person must inspect (`quarantined`). Never throws: one bad event must not delay the others.
 */
function interpretEvent(event: PendingEvent, mode: Mode): Subject {
  const read = readEvent(event.body);
  const { sourceId } = event;
  const origin = { inboxSeq: event.seq, eventId: event.eventId, eventType: storableType(read.type) };
  if (read.kind === "unreadable") return quarantine(event, origin, read);
  if (read.kind === "order") return interpretOrder(event, { origin, mode, read });
  return { kind: "ignored", sourceId, via: "webhook", event: origin, reason: "not about an order" };
}

function interpretOrder(
  event: PendingEvent,
  deps: { origin: EventOrigin; mode: Mode; read: ReceivedEvent & { kind: "order" } },
): Subject {
  const { origin, mode, read } = deps;
  const { snapshot, created } = read;
  const { reference, livemode, status } = snapshot.fields;
  const live = mode === "live";
  if ((read.livemode ?? live) !== live || (livemode ?? live) !== live) {
    const detail = `the event belongs to the other mode; its source is ${mode}`;
    return quarantine(event, origin, { reason: "wrong_mode", detail, reference });
  }
  if (created === undefined) {
    const detail = "created is not a date-time";
    return quarantine(event, origin, { reason: "unreadable_created", detail, reference });
  }
  const { sourceId } = event;
  const { version } = snapshot;
  if (version > addSeconds(event.databaseNow, CLOCK_TRUST_SECONDS)) {
    const detail = "updatedAt is more than a minute ahead of the database's clock";
    return quarantine(event, origin, { reason: "dated_ahead", detail, reference, version, status });
  }
  const observation = observeEvent({ sourceId, snapshot, created });
  const place = event.body.indexOf(snapshot.raw);
  const rawStart = place === -1 ? undefined : place + 1;
  return { kind: "observation", sourceId, via: "webhook", event: origin, observation, rawStart };
}

function storableType(type: string | null): string | null {
  return type?.replaceAll("\0", "").toWellFormed().slice(0, EVENT_TYPE_LENGTH_MAX) ?? null;
}

type Quarantined = Extract<Subject, { kind: "quarantined" }>;

function quarantine(
  { sourceId }: PendingEvent,
  event: EventOrigin,
  why: Pick<Quarantined, "reason" | "detail"> &
    Partial<Pick<Quarantined, "reference" | "version" | "status">>,
): Quarantined {
  const { reason, detail, reference = null, version, status } = why;
  const found = { reason, detail, reference, version, status, raw: null };
  return { kind: "quarantined", sourceId, via: "webhook", event, ...found };
}
