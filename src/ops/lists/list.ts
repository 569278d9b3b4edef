import type { Pool } from "../../database/database.ts";
import type { Position } from "../../database/keyset.sql.ts";
import type { Html } from "../../runtime/http/html.ts";
import type { Viewer } from "../auth/viewer.ts";
import type { Section } from "../html/page.ts";
import type { KindOfColumn } from "../../html/table.ts";

/** One page of a list, as its address asks for it. */
export interface ListQuery {
  /** Null: every source. */
  readonly sourceId: string | null;
  /** The chosen word of each filter; null: any. */
  readonly chosen: Readonly<Record<string, string | null>>;
  /** One of the list's sorts. */
  readonly sort: string;
  /** Null: the first page. */
  readonly after: Position | null;
  readonly limit: number;
}

export interface Listed {
  readonly position: Position;
}

export interface Filter {
  readonly label: string;
  /** Null: any text. */
  readonly words: readonly string[] | null;
  /** A word as people read it; default: as it is. */
  readonly describe?: (word: string) => string;
  /** What is shown if nothing is chosen; default: any. */
  readonly standard?: string;
}

export interface Column<Row> {
  readonly title: string;
  /** Numbers are aligned to the right, and sentences wrap. */
  readonly kind?: KindOfColumn["kind"];
  readonly show: (row: Row, viewer: Viewer) => string | Html;
}

/** A page that lists rows: what they are, how they can be chosen and sorted, and how each is shown. */
export interface List<Row extends Listed> {
  readonly title: string;
  readonly note: string;
  /** What would be here, if nothing is. */
  readonly empty: string;
  readonly section?: Section;
  /** Without this, the list is not of sources. */
  readonly ofSources?: false;
  readonly filters?: Readonly<Record<string, Filter>>;
  /** The ways to sort by their names, the standard one first. */
  readonly sorts: readonly string[];
  readonly columns: readonly Column<Row>[];
  readonly read: (pool: Pool, query: ListQuery) => Promise<Row[]>;
  /** Between the filter and the table. */
  readonly above?: (page: ListPage<Row>) => Html | false | Promise<Html>;
}

export interface ListPage<Row extends Listed> {
  readonly list: List<Row>;
  /** Its address, without a query. */
  readonly path: string;
  readonly query: ListQuery;
  readonly sources: readonly string[];
  readonly rows: readonly Row[];
  readonly hasMore: boolean;
  /** Number of an action that was just carried out; empty: none. */
  readonly did: string;
  readonly viewer: Viewer;
}

/** A query as an address; what is as by default is left out, and so is the position. */
export function writeQuery<Row extends Listed>(
  { path, list, query }: Pick<ListPage<Row>, "path" | "list" | "query">,
  after: Position = [],
): string {
  const parameters = new URLSearchParams();
  if (query.sourceId !== null) parameters.set("source", query.sourceId);
  for (const [name, { standard = null }] of Object.entries(list.filters ?? {})) {
    const word = query.chosen[name] ?? null;
    if (word !== null && word !== standard) parameters.set(name, word);
  }
  if (query.sort !== list.sorts[0]) parameters.set("sort", query.sort);
  for (const key of after) parameters.append("after", key);
  return parameters.size === 0 ? path : `${path}?${parameters.toString()}`;
}
