import type { Via } from "../domain/order/observation.ts";
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
/** What was decided on an observation; the words are explained at mirror.history.verdict. */
export type Verdict = (typeof VERDICTS)[number];

/**
 * One observation, or one event without an order, in the form that the statement reads. Bigints are decimal text; so are
 * times, in microseconds since 1970, which is what timestamptz holds; exact from 1685 to 2255.
 */
export interface BatchRow {
  /** Place in the batch, 0 first; comes back with the outcome. */
  readonly n: number;
  readonly source_id: string;
  readonly via: Via;
  /** Set for an event: its pending row is claimed, and nothing is done when another worker has it. */
  readonly inbox_seq: number | null;
  readonly event_id: string | null;
  readonly event_type: string | null;
  /** Decided beforehand: there is no order to apply. */
  readonly verdict: "ignored" | "quarantined" | null;
  readonly reason: string | null;
  readonly detail: string | null;
  /** The greatest observation of its order in this batch: the only one that is tried on the order. */
  readonly greatest: boolean;
  readonly reference: string | null;
  /** Where no order was read: what may be the reference of one whose personal data was erased. */
  readonly names: readonly string[] | null;
  /** Null for a claim; see OrderKey. */
  readonly horizon: string | null;
  readonly version: string | null;
  readonly settled: boolean | null;
  readonly observed_at: string | null;
  readonly rank: number | null;
  /** Hex. */
  readonly hash: string | null;
  readonly external_order_id: string | null;
  readonly status: string | null;
  readonly livemode: boolean | null;
  readonly fleet_name: string | null;
  readonly branch_id: string | null;
  readonly branch_reference: string | null;
  readonly schedule_mode: string | null;
  readonly resolved_pickup_time: string | null;
  readonly resolved_delivery_time: string | null;
  readonly resolved_basis: string | null;
  readonly pickup_time: string | null;
  readonly delivery_time: string | null;
  readonly real_pickup_time: string | null;
  readonly real_delivery_time: string | null;
  readonly updated_at: string | null;
  readonly raw: string | null;
}

export interface BatchOutcome {
  readonly n: number;
  readonly verdict: Verdict;
  readonly conflict: boolean;
  readonly previous_status: string | null;
  readonly revision: number | null;
  /** Of the order after the decision. */
  readonly stored_version: string | null;
}

/**
 * The columns that travel as JSON, with their types in the database. Times go as numbers: to write and read them as dates
 * costs both sides three times as much.
 */
const COLUMN_TYPES: Readonly<Record<Exclude<keyof BatchRow, "raw">, string>> = {
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
  external_order_id: "text",
  status: "text",
  livemode: "boolean",
  fleet_name: "text",
  branch_id: "text",
  branch_reference: "text",
  schedule_mode: "text",
  resolved_pickup_time: "timestamptz",
  resolved_delivery_time: "timestamptz",
  resolved_basis: "text",
  pickup_time: "timestamptz",
  delivery_time: "timestamptz",
  real_pickup_time: "timestamptz",
  real_delivery_time: "timestamptz",
  updated_at: "timestamptz",
};
const ROW_COLUMNS = Object.keys(COLUMN_TYPES) as (keyof typeof COLUMN_TYPES)[];
const isTime = (column: keyof typeof COLUMN_TYPES) => COLUMN_TYPES[column] === "timestamptz";
export const GIVEN_COLUMNS = ROW_COLUMNS.map(
  (name) => `${name} ${isTime(name) ? "bigint" : COLUMN_TYPES[name]}`,
);
function asRead(name: keyof typeof COLUMN_TYPES): string {
  if (name === "hash") return "decode(r.hash, 'hex') as hash";
  return isTime(name) ? `timestamptz 'epoch' + r.${name} * interval '1 microsecond' as ${name}` : `r.${name}`;
}
export const READ_COLUMNS = ROW_COLUMNS.map(asRead);

/**
 * The rows as JSON, without columns that are null in all of them, and their snapshots as bytes that the server cuts
 * apart: as text within the JSON each snapshot would be escaped here and read twice there, a tenth of what applying
 * an event costs Postgres.
 */
export function packRows(rows: readonly BatchRow[]): unknown[] {
  const columns = ROW_COLUMNS.filter((column) => rows.some((row) => row[column] !== null));
  const lengths = rows.map(({ raw }) => (raw === null ? null : Buffer.byteLength(raw)));
  const starts = startsOf(lengths.map((length) => length ?? 0));
  const raws = Buffer.from(rows.map(({ raw }) => raw ?? "").join(""));
  return [JSON.stringify(rows, columns), raws, starts, lengths];
}
