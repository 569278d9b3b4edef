import type { Queryable } from "../database/database.ts";
import { boundBehind } from "../wire/stateRange.ts";
import type { RangeSum, StateBound, StateRange } from "../wire/stateRange.ts";
import { sumColumns, withinRange } from "../wire/stateRange.sql.ts";
import type { SumRow } from "../wire/stateRange.sql.ts";

/** What identifies the states that a reader has in one range. */
export interface ListedStates extends StateRange {
  readonly states: readonly { readonly reference: string; readonly hash: string }[];
}

/** How a reader differs from the mirror in one range. */
export interface RangeDifference {
  /** Orders that the reader lacks or has in another state; those of its list may be outside the range now. */
  readonly orders: readonly { readonly hash: string; readonly raw: string }[];
  /** References that it has, although the mirror does not. */
  readonly gone: readonly string[];
  /** Null: these are all differences. Otherwise the later part of the range, from here on, is still to be compared. */
  readonly next: StateBound | null;
}

/*
 * The hash of an erased order is still that of its original, because it is part of the order key. Readers who have the
 * original must notice, so the order counts with another hash.
 */
const STATES = `
  mirror.orders o cross join lateral (
    select case when o.reference in (select e.reference from mirror.erasures e where e.source_id = $1)
      then sha256('erased' || o.hash) else o.hash end as hash) s
  where o.source_id = $1 and o.gone_at is null`;

const RANGES = `unnest($2::bigint[], $3::bytea[], $4::bigint[], $5::bytea[])
  with ordinality as r (since, since_hash, until, until_hash, nth)`;

const SUMS = `
  select summed.count, summed.sum from ${RANGES}
  cross join lateral (
    select ${sumColumns("s.hash", "$6::bytea")} from ${STATES} and ${withinRange("o.version", "s.hash", "r")}
  ) summed
  order by r.nth`;

/** Over all ranges of a statement. Beyond either, it is continued by the next one. */
const ORDERS_MAX = 5_000;
const BYTES_MAX = 4_000_000;

/*
 * First what each listed order has become, wherever it is now; then what is in the range and not in its list. An order
 * that has moved to another range is sent once. A range is cut behind an order of the second part, or starts again.
 */
const DIFFERENCES = `
  with listed as materialized (
    select * from unnest($6::bigint[], $7::text[], $8::bytea[]) as l (nth, reference, hash)
  ), found as (
    select l.nth, 1 as part, l.reference, known.version, known.hash, known.raw
    from listed l left join lateral (
      select o.version, s.hash, o.raw from ${STATES} and o.reference = l.reference
    ) known on true
    where known.hash is null or substring(known.hash for 16) <> l.hash
    union all
    (select r.nth, 2, more.reference, more.version, more.hash, more.raw
    from ${RANGES} cross join lateral (
      select o.reference, o.version, s.hash, o.raw from ${STATES} and ${withinRange("o.version", "s.hash", "r")}
        and not exists (select from listed l where l.nth = r.nth and l.reference = o.reference)
      order by o.version, s.hash limit ${ORDERS_MAX + 1}
    ) more
    order by r.nth, more.version, more.hash limit ${ORDERS_MAX + 1})
  ), once as (
    select distinct on (reference) * from found order by reference, nth, part
  ), walked as (
    select *, row_number() over walk as place,
      sum(coalesce(octet_length(raw::text), 0)) over walk as bytes_through
    from once window walk as (order by nth, part, version, hash, reference)
  )
  select nth::int as nth, part, reference, version, encode(hash, 'hex') as hash,
    case when sent then raw::text end as raw, sent
  from (
    select *, place = 1 or (place <= ${ORDERS_MAX} and bytes_through <= ${BYTES_MAX}) as sent from walked
  ) w
  order by place`;

interface DifferenceRow {
  readonly nth: number;
  readonly part: number;
  readonly reference: string;
  /** Null like `hash` and `raw` if the mirror does not have the order. */
  readonly version: string | null;
  readonly hash: string | null;
  readonly raw: string | null;
  readonly sent: boolean;
}

/** The sum of the source's states in each range. In a transaction, all ranges are of the same state of the mirror. */
export async function sumRanges(
  database: Queryable,
  query: { sourceId: string; salt: string; ranges: readonly StateRange[] },
): Promise<RangeSum[]> {
  const { sourceId, salt, ranges } = query;
  const { rows } = await database.query<SumRow>(SUMS, [
    sourceId,
    ...bindRanges(ranges),
    Buffer.from(salt, "hex"),
  ]);
  return rows.map(({ count, sum }) => ({ count, sum: BigInt(`0b${sum ?? "0"}`) }));
}

/** How the lists differ from the mirror: at most ORDERS_MAX orders in all, fewer if they are large. */
export async function findDifferences(
  database: Queryable,
  query: { sourceId: string; lists: readonly ListedStates[] },
): Promise<RangeDifference[]> {
  const { sourceId, lists } = query;
  const listed = lists.flatMap(({ states }, index) => states.map((state) => ({ ...state, nth: index + 1 })));
  const { rows } = await database.query<DifferenceRow>(DIFFERENCES, [
    sourceId,
    ...bindRanges(lists),
    listed.map(({ nth }) => nth),
    listed.map(({ reference }) => reference),
    listed.map(({ hash }) => Buffer.from(hash, "hex")),
  ]);
  const cutAt = rows.find(({ sent }) => !sent)?.nth ?? Infinity;
  const rowsOf = groupByRange(rows);
  return lists.map(({ since }, index) => {
    const nth = index + 1;
    const sent = (rowsOf.get(nth) ?? []).filter((row) => row.sent);
    const next = nth < cutAt ? null : (findEnd(sent.at(-1)) ?? since);
    const orders = sent.flatMap(({ hash, raw }) => (hash === null || raw === null ? [] : [{ hash, raw }]));
    const gone = sent.filter(({ hash }) => hash === null).map(({ reference }) => reference);
    return { orders, gone, next };
  });
}

function groupByRange(rows: readonly DifferenceRow[]): Map<number, DifferenceRow[]> {
  const groups = new Map<number, DifferenceRow[]>();
  for (const row of rows) {
    const group = groups.get(row.nth);
    if (group === undefined) groups.set(row.nth, [row]);
    else group.push(row);
  }
  return groups;
}

/** Behind the last order that was found in the range itself; undefined if there is none. */
function findEnd(last: DifferenceRow | undefined): StateBound | undefined {
  if (last?.part !== 2 || last.version === null || last.hash === null) return undefined;
  return boundBehind({ version: BigInt(last.version), hash: last.hash });
}

function bindRanges(ranges: readonly StateRange[]) {
  const hashes = (bounds: readonly StateBound[]) => bounds.map(({ hash }) => Buffer.from(hash, "hex"));
  return [
    ranges.map(({ since }) => since.version),
    hashes(ranges.map(({ since }) => since)),
    ranges.map(({ until }) => until.version),
    hashes(ranges.map(({ until }) => until)),
  ];
}
