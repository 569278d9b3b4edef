import type { RequestHandler } from "express";
import type { Pool } from "../../database/database.ts";
import { classifyDatabaseError } from "../../database/databaseErrors.ts";
import { describeDelay } from "../../domain/duration.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { html, type Html } from "../../html/html.ts";
import { renderChoice, renderInstant, renderTable, type KindOfColumn } from "../../html/parts.ts";
import {
  readField,
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
import { readListRows, type Selection } from "./listRows.sql.ts";

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

interface Row {
  /** The sort keys, as the server writes them as text. */
  readonly position: readonly string[];
  readonly cells: readonly (string | Html)[];
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
  readonly rows: readonly Row[];
  readonly hasMore: boolean;
  readonly viewer: Viewer;
}

/** Rows on one page. */
const PAGE_ROWS = 50;
const TEXT_LENGTH_MAX = 200;

/** Serves a list at `path`. */
export function serveList(pool: Pool, path: string, list: List): RequestHandler {
  return async (request, response) => {
    const choice = parseChoice(list, request.query);
    try {
      const rows = await readCells(pool, list, choice);
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

function parseChoice({ filters = {} }: List, given: Readonly<Record<string, unknown>>): Choice {
  const words = Object.entries(filters).map(([name, { words: known, standard = "" }]) => {
    const word = readField(given[name]).trim().slice(0, TEXT_LENGTH_MAX);
    return [name, known === null || known.includes(word) ? word : standard] as const;
  });
  const after = [given["after"]].flat().map(readField);
  return {
    chosen: { source: readField(given["source"]), ...Object.fromEntries(words) },
    after: after.every((key) => key === "") ? null : after,
  };
}

/** Reads one row more than a page has, with its cells. */
async function readCells(pool: Pool, list: List, { chosen, after }: Choice): Promise<Row[]> {
  const { columns, filters = {} } = list;
  const conditions = Object.entries(filters).map(
    ([name, { where = (word: string) => `${name} = ${word}` }]) => ({
      word: chosen[name] || null,
      where,
    }),
  );
  const selected = columns.map(({ select }) => select);
  const sourceId = chosen["source"] || null;
  const rows = await readListRows(pool, list, {
    selected,
    sourceId,
    conditions,
    after,
    limit: PAGE_ROWS + 1,
  });
  return rows.map(({ position, values }) => ({
    position,
    cells: columns.map(({ show }, column) => show(...((values[column] ?? []) as never[]))),
  }));
}

function renderList(page: ListPage, above: Html | undefined): Page {
  const { list, rows, after } = page;
  const { title, note, empty, columns, section = "overview" } = list;
  const last = rows.at(-1);
  const isFiltered = after !== null || listChosen(page).length > 0;
  const table = () =>
    renderTable({
      title,
      cards: true,
      columns: columns.map(({ title: name, kind }) => (kind === undefined ? name : { title: name, kind })),
      rows: rows.map(({ cells }) => cells),
      keys: rows.map(({ position }) => position.join(" ")),
    });
  const body = html`<h1>${title}</h1>
    <p>${renderSentence(note)}</p>
    ${renderFilter(page)} ${above}
    <div id="list" data-live data-calm>
      ${rows.length > 0 ? table() : html`<p class="empty">${isFiltered ? "Nothing matches this choice." : empty}</p>`}
    </div>
    ${renderPaging({
      first: after === null ? null : writeAddress(page),
      next: page.hasMore && last !== undefined ? writeAddress(page, last.position) : null,
    })}`;
  return { title, body, section, live: after === null };
}

/** The words that are not as by default. */
function listChosen({ list, chosen }: ListPage): [name: string, word: string][] {
  return Object.entries(chosen).filter(([name, word]) => word !== (list.filters?.[name]?.standard ?? ""));
}

/** The address of a list; what is as by default is left out, and so is the position. */
function writeAddress(page: ListPage, after: readonly string[] = []): string {
  const parameters = new URLSearchParams(listChosen(page));
  for (const key of after) parameters.append("after", key);
  return parameters.size === 0 ? page.path : `${page.path}?${parameters.toString()}`;
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
