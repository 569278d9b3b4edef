import { fold, orderIdentity, type Observation, type Via } from "../domain/order/observation.ts";
import { ORDER_COLUMN_LIST, type OrderColumn } from "../domain/order/orderColumns.ts";
import { packArray, typeName, type ElementType } from "../database/binaryArrays.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { Subject } from "./subject.ts";
import type { Verdict } from "./verdicts.ts";

/**
 * An observation, or input that has no order to apply, with the columns that the statement reads and those of the
 * order's fields.
 */
export interface BatchRow extends Readonly<Partial<Record<OrderColumn, string | boolean | Instant | null>>> {
  readonly source_id: string;
  readonly via: Via;
  /** Set for an event: its pending row is claimed, and the event is skipped if another worker has it. */
  readonly inbox_seq: number | null;
  readonly event_id: string | null;
  readonly event_type: string | null;
  /** Decided in advance: there is no order to apply. */
  readonly verdict: "ignored" | "quarantined" | null;
  readonly reason: string | null;
  readonly detail: string | null;
  /** The greatest observation of its order in this batch: only this one is tried on the order. */
  readonly greatest: boolean;
  readonly reference: string | null;
  /** Null for a claim; see OrderKey. */
  readonly horizon: Instant | null;
  readonly version: Instant | null;
  readonly settled: boolean | null;
  readonly observed_at: Instant | null;
  readonly rank: number | null;
  /** Hex. */
  readonly hash: string | null;
  readonly updated_at: Instant | null;
  readonly raw: string | null;
  /** The place of `raw` in the event's body, in bytes from 1; null if no event has it. */
  readonly raw_start: number | null;
}

export interface BatchDecision {
  /** The index of its row in the batch, from 0. */
  readonly n: number;
  readonly verdict: Verdict;
  readonly conflict: boolean;
  readonly previous_status: string | null;
  /** The version of the order after the decision. */
  readonly stored_version: string | null;
  /** The number of decisions of the batch with rare consequences; null for none, which is nearly always the case. */
  readonly followed_up: number | null;
}

/** The columns of a row, each sent as an array. */
const OWN_TYPES: Readonly<Record<Exclude<keyof BatchRow, OrderColumn>, ElementType>> = {
  source_id: "text",
  via: "text",
  inbox_seq: "bigint",
  event_id: "text",
  event_type: "text",
  verdict: "text",
  reason: "text",
  detail: "text",
  greatest: "boolean",
  reference: "text",
  horizon: "bigint",
  version: "bigint",
  settled: "boolean",
  observed_at: "bigint",
  rank: "smallint",
  hash: "hex",
  updated_at: "instant",
  raw: "text",
  raw_start: "integer",
};
const COLUMN_TYPES: readonly (readonly [name: keyof BatchRow, type: ElementType])[] = [
  ...(Object.keys(OWN_TYPES) as (keyof typeof OWN_TYPES)[]).map((name) => [name, OWN_TYPES[name]] as const),
  ...ORDER_COLUMN_LIST.map(
    ({ column, type }) => [column, type === "timestamptz" ? "instant" : type] as const,
  ),
];
/** Joins parts of a list with commas, in lines that people can read. */
export const list = (parts: readonly string[]) =>
  parts.reduce((text, part) => {
    const length = text.length - text.lastIndexOf("\n") + part.length;
    return `${text},${length > 110 ? "\n      " : " "}${part}`;
  });
export const ROW_COLUMNS = COLUMN_TYPES.map(([name]) => name);
/** The rows in a FROM clause, with `place` from 1. */
export const GIVEN_ROWS = `unnest(
      ${list(COLUMN_TYPES.map(([, type], index) => `$${index + 1}::${typeName(type)}[]`))}
    ) with ordinality as r (
      ${list([...ROW_COLUMNS, "place"])})`;
/** Positions in the inbox, of the events among the rows. */
export const GIVEN_SEQS = `$${ROW_COLUMNS.indexOf("inbox_seq") + 1}::bigint[]`;
/** The length of each snapshot in bytes. */
export const GIVEN_LENGTHS = `$${COLUMN_TYPES.length + 1}::int[]`;

/** The values of GIVEN_ROWS and GIVEN_LENGTHS. */
export function packRows(rows: readonly BatchRow[]): unknown[] {
  const columns = COLUMN_TYPES.map(([name, type]) => {
    const values = rows.map((row) => row[name] ?? null);
    return packArray(type, values);
  });
  const lengths = rows.map(({ raw }) => (raw === null ? null : Buffer.byteLength(raw)));
  return [...columns, packArray("integer", lengths)];
}

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
 * The columns that an input without an order leaves empty. One object to copy: spreading several into a row costs ten
 * times the rest (measured).
 */
const EMPTY_ROW = Object.fromEntries(ROW_COLUMNS.map((name) => [name, null])) as unknown as BatchRow;

function rowWithoutOrder({ sourceId, via, event }: Subject): WritableRow {
  const row: WritableRow = { ...EMPTY_ROW, source_id: sourceId, via, greatest: false };
  row.inbox_seq = event?.inboxSeq ?? null;
  row.event_id = event?.eventId ?? null;
  row.event_type = event?.eventType ?? null;
  return row;
}
