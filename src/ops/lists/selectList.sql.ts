import type { Instant } from "../../domain/order/instant.ts";
import { queryInstants } from "../../database/columns.ts";
import { pickSort, writeKeyset } from "../../database/keyset.sql.ts";
import type { Sorts } from "../../database/keyset.sql.ts";
import type { Html } from "../../runtime/http/html.ts";
import { describeCount, describeDelay, linkOrder } from "../overview/phrases.ts";
import { renderInstant } from "../../html/parts.ts";
import type { Column, List, Listed } from "./listPage.ts";

/** A column of a list that one statement reads: the expressions to select, and the cell that their values make. */
interface SelectedColumn extends Pick<Column<never>, "title" | "kind"> {
  readonly select: readonly string[];
  /** Gets the values, and last the viewer. */
  readonly show: (...values: never[]) => string | Html;
}

export type SelectedRow = Listed & Readonly<Record<string, unknown>>;

/** A list whose columns state what the statement selects. */
export type SelectedList = List<SelectedRow>;

/**
 * Makes a list from its columns and from the rest of its statement, whose values are the source, the limit, the
 * position, and the chosen words of `filters`; null stands for any.
 */
export function selectList({
  columns,
  sorts,
  from,
  ...list
}: Omit<SelectedList, "columns" | "sorts" | "read"> & {
  readonly columns: readonly SelectedColumn[];
  readonly sorts: Sorts;
  readonly from: (keyset: ReturnType<typeof writeKeyset>) => string;
}): SelectedList {
  const nameOf = (column: number, value: number) => `value_${column}_${value}`;
  const selected = columns.flatMap(({ select }, column) =>
    select.map((expression, value) => `${expression} as ${nameOf(column, value)}`),
  );
  return {
    ...list,
    sorts: Object.keys(sorts),
    read: (pool, { sourceId, limit, after, sort, chosen }) => {
      const keyset = writeKeyset(pickSort(sorts, sort), 3);
      const words = Object.keys(list.filters ?? {}).map((name) => chosen[name] ?? null);
      const statement = `select ${keyset.position} as position, ${selected.join(", ")} ${from(keyset)}`;
      return queryInstants<SelectedRow>(pool, statement, [sourceId, limit, after, ...words]);
    },
    columns: columns.map(({ select, show, ...head }, column) => ({
      ...head,
      show: (row, viewer) => {
        const values = select.map((_, value) => row[nameOf(column, value)]);
        return show(...([...values, viewer] as never[]));
      },
    })),
  };
}

export function text(title: string, expression: string): SelectedColumn {
  return { title, select: [expression], show: (value: string | null) => value ?? "–" };
}

export function sentence(title: string, expression: string): SelectedColumn {
  return { ...text(title, expression), kind: "sentence" };
}

export function count(title: string, expression: string): SelectedColumn {
  const show = (value: number | null) => (value === null ? "–" : describeCount(value));
  return { title, kind: "number", select: [`(${expression})::float8`], show };
}

/** Seconds. */
export function delay(title: string, expression: string): SelectedColumn {
  return { title, kind: "number", select: [`(${expression})::float8`], show: describeDelay };
}

/** A timestamptz, to the millisecond unless `show` says otherwise. */
export function time(
  title: string,
  expression: string,
  show: (at: Instant | null) => string | Html = renderInstant,
): SelectedColumn {
  return { title, select: [`mirror.nanos_of(${expression})`], show };
}

export const SOURCE = text("Source", "source_id");

export const ORDER: SelectedColumn = {
  title: "Order",
  select: ["source_id", "reference"],
  show: (sourceId: string, reference: string | null) => linkOrder({ sourceId, reference }),
};

/** A period of updatedAt; its ends are expressions of nanoseconds. */
export function period(since: string, until: string): readonly SelectedColumn[] {
  return [
    { title: "From", select: [since], show: renderInstant },
    { title: "To (exclusive)", select: [until], show: renderInstant },
  ];
}
