import type { RequestHandler } from "express";
import type { Pool } from "../../database/database.ts";
import { classifyDatabaseError } from "../../database/databaseErrors.ts";
import { describeDelay } from "../../domain/duration.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { html, type Html } from "../../html/html.ts";
import { renderChoice, renderInstant, renderTable, type KindOfColumn } from "../../html/parts.ts";
import {
  sendRefusal,
  renderPaging,
  sendPage,
  viewerOf,
  type Page,
  type Section,
  type Viewer,
} from "../page.ts";
import { describeCount, linkOrder, renderSentence } from "../phrases.ts";
import { readSourceIds } from "../../sources/sources.sql.ts";
import { parseChoice, parsePosition, writeChoice, type Names } from "./choice.ts";
import { readListRows, type ListRow, type Selection } from "./listRows.sql.ts";

// A list page is one statement: its columns say what is selected and how it is shown, its keys how the rows are sorted,
// so that each page costs the same however far down it is. All of the choice is in the address. Start at `serveList`.

/** The expressions to select, and the cell that their values make. */
export interface Column {
  readonly title: string;
  /** Numbers are aligned to the right, and sentences wrap. */
  readonly kind?: KindOfColumn["kind"];
  readonly select: readonly string[];
  readonly show: (...values: never[]) => string | Html;
}

interface Filter {
  readonly label: string;
  /** Null: any text. */
  readonly words: readonly string[] | null;
  /** A word as people read it; default: as it is. */
  readonly describe?: (word: string) => string;
  /** Word that is in force if nothing is chosen; default: any. */
  readonly standard?: string;
  /** The condition on rows of this word; default: the column of the filter's name has it. */
  readonly where?: (word: string) => string;
}

export interface List extends Selection {
  readonly title: string;
  readonly note: string;
  /** Sentence that stands here while the list has no row. */
  readonly empty: string;
  readonly section?: Section;
  readonly filters?: Readonly<Record<string, Filter>>;
  readonly columns: readonly Column[];
  /** Between the filter and the table. */
  readonly above?: (page: ListPage, pool: Pool) => Html | Promise<Html>;
}

export interface ListPage {
  readonly list: List;
  /** Its address, without a query. */
  readonly path: string;
  /** The chosen word of each filter, and the source; empty: any. */
  readonly chosen: Readonly<Record<string, string>>;
  /** The position before the first row; null on the first page. */
  readonly after: readonly string[] | null;
  readonly sources: readonly string[];
  readonly rows: readonly ListRow[];
  readonly hasMore: boolean;
  readonly viewer: Viewer;
}

/** Rows on one page. */
const PAGE_ROWS = 50;

/** Serves a list at `path`. */
export function serveList(pool: Pool, path: string, list: List): RequestHandler {
  return async (request, response) => {
    const choice = {
      chosen: parseChoice(namesOf(list), request.query),
      after: parsePosition(request.query),
    };
    try {
      const rows = await readRows(pool, list, choice);
      const page: ListPage = {
        list,
        path,
        ...choice,
        sources: await readSourceIds(pool),
        rows: rows.slice(0, PAGE_ROWS),
        hasMore: rows.length > PAGE_ROWS,
        viewer: viewerOf(response),
      };
      sendPage(response, renderList(page, await list.above?.(page, pool)));
    } catch (error) {
      if (choice.after === null || classifyDatabaseError(error) !== "refused-content") throw error;
      sendRefusal(response, 400, "This is not the address of a page of this list.");
    }
  };
}

type Choice = Pick<ListPage, "chosen" | "after">;

function namesOf({ filters = {} }: List): Names {
  const words = Object.entries(filters).map(([name, { words: known, standard = "" }]) => [
    name,
    known && [standard, ...known],
  ]);
  return { source: null, ...Object.fromEntries(words) };
}

/** Reads one row more than a page has. */
function readRows(pool: Pool, list: List, { chosen, after }: Choice): Promise<ListRow[]> {
  const { columns, filters = {} } = list;
  return readListRows(pool, list, {
    selected: columns.map(({ select }) => select),
    sourceId: chosen["source"] || null,
    conditions: Object.entries(filters).map(([name, { where = (word: string) => `${name} = ${word}` }]) => ({
      word: chosen[name] || null,
      where,
    })),
    after,
    limit: PAGE_ROWS + 1,
  });
}

function renderList(page: ListPage, above: Html | undefined): Page {
  const { list, rows, after } = page;
  const { title, note, empty, columns, section = "overview" } = list;
  const last = rows.at(-1);
  const address = (position?: readonly string[]) =>
    page.path + writeChoice(namesOf(list), page.chosen, position);
  const isFiltered = after !== null || address() !== page.path;
  const table = () =>
    renderTable({
      title,
      cards: true,
      columns: columns.map(({ title: name, kind }) => (kind === undefined ? name : { title: name, kind })),
      rows: rows.map(({ values }) => columns.map(({ show }, at) => show(...((values[at] ?? []) as never[])))),
      keys: rows.map(({ position }) => position.join(" ")),
    });
  const body = html`<h1>${title}</h1>
    <p>${renderSentence(note)}</p>
    ${renderFilter(page)} ${above}
    <div id="list" data-live data-calm>
      ${rows.length > 0 ? table() : html`<p class="empty">${isFiltered ? "Nothing matches this choice." : empty}</p>`}
    </div>
    ${renderPaging({
      first: after === null ? null : address(),
      next: page.hasMore && last !== undefined ? address(last.position) : null,
    })}`;
  return { title, body, section, live: after === null };
}

function renderFilter({ list, path, chosen, sources }: ListPage): Html {
  const filters: Readonly<Record<string, Filter>> = {
    source: { label: "Source", words: sources },
    ...list.filters,
  };
  const choices = Object.entries(filters).map(([name, { label, words, describe, standard }]) =>
    words === null
      ? html`<label>${label} <input name="${name}" value="${chosen[name] ?? ""}" size="14" /></label>`
      : renderChoice({
          label,
          name,
          words,
          chosen: chosen[name] ?? "",
          describe,
          ...(standard !== undefined && { any: null }),
        }),
  );
  return html`<form class="row filter" action="${path}" aria-label="Choice of ${list.title.toLowerCase()}">
    ${choices}<button>Show</button>
  </form>`;
}

export function text(title: string, expression: string): Column {
  return { title, select: [expression], show: (value: string | null) => value ?? "–" };
}

export function sentence(title: string, expression: string): Column {
  return { ...text(title, expression), kind: "sentence" };
}

export function count(title: string, expression: string): Column {
  const show = (value: number | null) => (value === null ? "–" : describeCount(value));
  return { title, kind: "number", select: [`(${expression})::float8`], show };
}

/** Seconds. */
export function delay(title: string, expression: string): Column {
  const show = (seconds: number | null) => (seconds === null ? "–" : describeDelay(seconds));
  return { title, kind: "number", select: [`(${expression})::float8`], show };
}

/** A timestamptz, to the millisecond unless `show` says otherwise. */
export function time(
  title: string,
  expression: string,
  show: (at: Instant | null) => string | Html = renderInstant,
): Column {
  return { title, select: [`mirror.nanos_of(${expression})`], show };
}

export const SOURCE = text("Source", "source_id");

export const ORDER: Column = {
  title: "Order",
  select: ["source_id", "reference"],
  show: (sourceId: string, reference: string | null) => linkOrder({ sourceId, reference }),
};

/** A period of updatedAt; its ends are expressions of nanoseconds. */
export function period(since: string, until: string): readonly Column[] {
  return [
    { title: "From", select: [since], show: renderInstant },
    { title: "To (exclusive)", select: [until], show: renderInstant },
  ];
}
