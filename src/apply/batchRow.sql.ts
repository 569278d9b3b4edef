import type { Via } from "../domain/order/observation.ts";
import { ORDER_COLUMN_LIST } from "../domain/order/orderColumns.ts";
import type { OrderColumn } from "../domain/order/orderColumns.ts";
import { startsOf } from "../database/packedBytes.ts";

export const VERDICTS = [
  "applied",
  "corrected",
  "confirmed",
  "stale",
  "refuted",
  "duplicate",
  "ignored",
  "quarantined",
  "gone",
] as const;
/** The decision on an observation; mirror.history.verdict explains the words. */
export type Verdict = (typeof VERDICTS)[number];

/**
 * One observation, or one event without an order, with the columns that the statement reads and those of the order's
 * fields. Bigints are decimal text; so are times, in microseconds since 1970, the precision of timestamptz; exact from
 * 1685 to 2255.
 */
export interface BatchRow extends Readonly<Partial<Record<OrderColumn, string | boolean | null>>> {
  /** Index in the batch, from 0; returned with the verdict. */
  readonly n: number;
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
  /** Possible references of erased orders, for input without an order. */
  readonly names: readonly string[] | null;
  /** Null for a claim; see OrderKey. */
  readonly horizon: string | null;
  readonly version: string | null;
  readonly settled: boolean | null;
  readonly observed_at: string | null;
  readonly rank: number | null;
  /** Hex. */
  readonly hash: string | null;
  readonly updated_at: string | null;
  readonly raw: string | null;
  /** Where `raw` begins in the event's body, in bytes from 1; null for what a read showed. */
  readonly raw_start: number | null;
}

export interface BatchDecision {
  readonly n: number;
  readonly verdict: Verdict;
  readonly conflict: boolean;
  readonly previous_status: string | null;
  readonly revision: number | null;
  /** Of the order after the decision. */
  readonly stored_version: string | null;
  /** How many decisions of the batch had rare consequences; null for none, which is nearly always the case. */
  readonly followed_up: number | null;
}

/**
 * The columns that are sent as JSON, with their database types. Times are sent as numbers: dates cost both sides three
 * times as much.
 */
const OWN_TYPES: Readonly<Record<Exclude<keyof BatchRow, "raw" | "raw_start" | OrderColumn>, string>> = {
  n: "integer",
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
  names: "text[]",
  horizon: "bigint",
  version: "bigint",
  settled: "boolean",
  observed_at: "bigint",
  rank: "smallint",
  hash: "text",
  updated_at: "timestamptz",
};
const COLUMN_TYPES: readonly (readonly [name: Exclude<keyof BatchRow, "raw" | "raw_start">, type: string])[] =
  [
    ...(Object.keys(OWN_TYPES) as (keyof typeof OWN_TYPES)[]).map((name) => [name, OWN_TYPES[name]] as const),
    ...ORDER_COLUMN_LIST.map(({ column, type }) => [column, type] as const),
  ];
export const ROW_COLUMNS = COLUMN_TYPES.map(([name]) => name);
export const GIVEN_COLUMNS = COLUMN_TYPES.map(
  ([name, type]) => `${name} ${type === "timestamptz" ? "bigint" : type}`,
);
export const READ_COLUMNS = COLUMN_TYPES.map(([name, type]) => {
  if (name === "hash") return "decode(r.hash, 'hex') as hash";
  return type === "timestamptz"
    ? `timestamptz 'epoch' + r.${name} * interval '1 microsecond' as ${name}`
    : `r.${name}`;
});

/**
 * The rows as JSON, without columns that are null in all of them, and their snapshots as bytes that the server splits:
 * inside the JSON each snapshot would be escaped here and read twice there, a tenth of Postgres' cost of applying an
 * event.
 */
export function packRows(rows: readonly BatchRow[]): unknown[] {
  const columns = ROW_COLUMNS.filter((column) => rows.some((row) => (row[column] ?? null) !== null));
  const lengths = rows.map(({ raw }) => (raw === null ? null : Buffer.byteLength(raw)));
  const starts = startsOf(lengths.map((length) => length ?? 0));
  const raws = Buffer.from(rows.map(({ raw }) => raw ?? "").join(""));
  const seqs = rows.flatMap(({ inbox_seq: seq }) => (seq === null ? [] : [seq]));
  const places = rows.map((row) => row.raw_start);
  return [JSON.stringify(rows, columns), raws, starts, lengths, seqs, places];
}
