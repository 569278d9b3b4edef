import { fold, orderIdentity } from "../domain/order/fold.ts";
import type { Observation } from "../domain/order/observation.ts";
import { ORDER_COLUMN_LIST } from "../domain/order/orderColumns.ts";
import type { BatchRow } from "./batchRow.sql.ts";
import type { Subject } from "./subject.ts";

/** An observation and its place in the batch. */
type Placed = Observation & { readonly n: number };

/** The rows that applyBatch decides on, one per subject, with its index as `n`. */
export function toBatchRows(subjects: readonly Subject[]): BatchRow[] {
  const placed = subjects.flatMap((subject, n) =>
    subject.kind === "observation" ? { ...subject.observation, n } : [],
  );
  const greatest = new Map(fold(placed).map((observation) => [orderIdentity(observation), observation]));
  return subjects.map((subject, n) => toRow(subject, n, greatest));
}

function toRow(subject: Subject, n: number, greatest: ReadonlyMap<string, Placed>): BatchRow {
  switch (subject.kind) {
    case "observation":
      return observationRow(subject, n, greatest);
    case "ignored":
      return { ...rowWithoutOrder(subject), verdict: "ignored", reason: subject.reason };
    case "quarantined": {
      const { reason, detail, reference, raw } = subject;
      const { version = null, status = null } = subject;
      const problem = { reason, detail, reference, version, status, raw };
      return { ...rowWithoutOrder(subject), verdict: "quarantined", ...problem };
    }
    default: {
      const never: never = subject;
      return never;
    }
  }
}

function observationRow(
  subject: Subject & { kind: "observation" },
  n: number,
  greatestByOrder: ReadonlyMap<string, Placed>,
): BatchRow {
  const { key, snapshot } = subject.observation;
  const winner = greatestByOrder.get(orderIdentity(subject.observation));
  const row = rowWithoutOrder(subject);
  row.greatest = winner === undefined || winner.n === n;
  row.reference = snapshot.fields.reference;
  row.horizon = key.horizon;
  row.version = key.version;
  row.settled = key.settled;
  row.observed_at = key.observedAt;
  row.rank = key.rank;
  row.hash = key.hash;
  row.updated_at = key.version;
  row.raw = snapshot.raw;
  row.raw_start = subject.rawStart ?? null;
  for (const { field, column } of ORDER_COLUMN_LIST) {
    row[column] = snapshot.fields[field];
  }
  return row;
}

type WritableRow = { -readonly [Column in keyof BatchRow]: BatchRow[Column] };

/**
 * One literal that is filled in afterwards: with this many columns, spreading parts into it costs ten times the rest
 * (measured).
 */
function rowWithoutOrder(subject: Subject): WritableRow {
  return {
    source_id: subject.sourceId,
    via: subject.via,
    inbox_seq: subject.event?.inboxSeq ?? null,
    event_id: subject.event?.eventId ?? null,
    event_type: subject.event?.eventType ?? null,
    verdict: null,
    reason: null,
    detail: null,
    greatest: false,
    reference: null,
    horizon: null,
    version: null,
    settled: null,
    observed_at: null,
    rank: null,
    hash: null,
    updated_at: null,
    raw: null,
    raw_start: null,
  };
}
