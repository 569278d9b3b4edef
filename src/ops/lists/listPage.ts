import type { RequestHandler } from "express";
import type { Pool } from "../../database/database.ts";
import { classifyDatabaseError } from "../../database/databaseErrors.ts";
import type { Position } from "../../database/keyset.sql.ts";
import { renderTable } from "../../html/parts.ts";
import type { KindOfColumn } from "../../html/parts.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { readSourceIds } from "../../sources/sources.sql.ts";
import { viewerOf } from "../auth/viewer.ts";
import type { Viewer } from "../auth/viewer.ts";
import { renderChoice } from "../html/choice.ts";
import { renderPage, renderPaging } from "../html/page.ts";
import type { Section } from "../html/page.ts";
import { readField, refuse, sendPage } from "../html/requests.ts";
import { renderSentence } from "../overview/phrases.ts";

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
function writeQuery<Row extends Listed>(
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

const SORT_WORDS: Readonly<Record<string, string>> = {
  newest: "Newest first",
  oldest: "Oldest first",
  delay: "Longest delay first",
  next: "Next first",
  last: "Last first",
  name: "By name",
};

/** A list: its filter, what stands `above` the table, one page of rows, and the way to the next. All of the choice is in the address. */
function renderList<Row extends Listed>(page: ListPage<Row>, above: Html | false | undefined): string {
  const { list, query, rows, viewer } = page;
  const { title, note, empty, columns, section = "overview" } = list;
  const last = rows.at(-1);
  const isFiltered = query.sourceId !== null || query.after !== null || isNarrowed(page);
  const table = () =>
    renderTable({
      title,
      cards: true,
      columns: columns.map(({ title: name, kind }) => (kind === undefined ? name : { title: name, kind })),
      rows: rows.map((row) => columns.map(({ show }) => show(row, viewer))),
    });
  const body = html`<h1>${title}</h1>
    <p>${renderSentence(note)}</p>
    ${renderFilter(page)} ${above}
    <div id="list" data-live>
      ${rows.length > 0 ? table() : html`<p class="empty">${isFiltered ? "Nothing matches this choice." : empty}</p>`}
    </div>
    ${renderPaging({
      first: query.after === null ? null : writeQuery(page),
      next: page.hasMore && last !== undefined ? writeQuery(page, last.position) : null,
    })}`;
  return renderPage({ title, body, viewer, section, live: query.after === null });
}

function isNarrowed<Row extends Listed>({ list, query }: ListPage<Row>): boolean {
  return Object.entries(list.filters ?? {}).some(
    ([name, { standard = null }]) => query.chosen[name] !== standard,
  );
}

function renderFilter<Row extends Listed>({ list, path, query, sources }: ListPage<Row>): Html {
  const { title, filters = {}, sorts } = list;
  const choices = Object.entries(filters).map(([name, filter]) =>
    renderField(name, filter, query.chosen[name] ?? null),
  );
  if (list.ofSources !== false)
    choices.unshift(
      renderChoice({ label: "Source", name: "source", words: sources, chosen: query.sourceId }),
    );
  if (sorts.length > 1)
    choices.push(
      renderChoice({
        label: "Sort",
        name: "sort",
        words: sorts,
        chosen: query.sort,
        any: null,
        describe: (sort) => SORT_WORDS[sort] ?? sort,
      }),
    );
  if (choices.length === 0) return html``;
  return html`<form class="row filter" action="${path}" aria-label="Choice of ${title.toLowerCase()}">
    ${choices}<button>Show</button>
  </form>`;
}

function renderField(
  name: string,
  { label, words, describe, standard }: Filter,
  chosen: string | null,
): Html {
  if (words === null)
    return html`<label>${label} <input name="${name}" value="${chosen ?? ""}" size="14" /></label>`;
  return renderChoice({ label, name, words, chosen, describe, ...(standard !== undefined && { any: null }) });
}

/** Rows on one page. */
const PAGE_ROWS = 50;
const TEXT_LENGTH_MAX = 200;

/** Serves a list at `path`. */
export function serveList<Row extends Listed>(pool: Pool, path: string, list: List<Row>): RequestHandler {
  return async (request, response) => {
    const query = parseQuery(list, request.query);
    try {
      const rows = await list.read(pool, { ...query, limit: PAGE_ROWS + 1 });
      const page = {
        list,
        path,
        query,
        sources: list.ofSources === false ? [] : await readSourceIds(pool),
        rows: rows.slice(0, PAGE_ROWS),
        hasMore: rows.length > PAGE_ROWS,
        did: readField(request.query["did"]),
        viewer: viewerOf(response),
      };
      sendPage(response, renderList(page, await list.above?.(page)));
    } catch (error) {
      if (query.after === null || classifyDatabaseError(error) !== "refused-content") throw error;
      refuse(response, 400, "This is not the address of a page of this list.");
    }
  };
}

function parseQuery<Row extends Listed>(
  { filters = {}, sorts, ofSources }: List<Row>,
  given: Readonly<Record<string, unknown>>,
): ListQuery {
  const chosen = Object.entries(filters).map(([name, { words, standard = null }]) => {
    const word = readField(given[name]).trim().slice(0, TEXT_LENGTH_MAX);
    return [name, (words ?? [word].filter(Boolean)).includes(word) ? word : standard] as const;
  });
  const after = [given["after"]].flat().map(readField);
  const sort = readField(given["sort"]);
  return {
    sourceId: ofSources === false ? null : readField(given["source"]) || null,
    chosen: Object.fromEntries(chosen),
    sort: sorts.includes(sort) ? sort : (sorts[0] ?? ""),
    after: after.every((key) => key === "") ? null : after,
    limit: PAGE_ROWS,
  };
}
