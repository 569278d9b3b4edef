import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { renderChoice } from "../html/choice.ts";
import { renderPage, renderPaging } from "../html/page.ts";
import { renderTable } from "../../html/table.ts";
import { renderSentence } from "../overview/phrases.ts";
import type { Filter, Listed, ListPage } from "./list.ts";
import { writeQuery } from "./list.ts";

const SORT_WORDS: Readonly<Record<string, string>> = {
  newest: "Newest first",
  oldest: "Oldest first",
  delay: "Longest delay first",
  next: "Next first",
  last: "Last first",
  name: "By name",
};

/** A list: its filter, what stands `above` the table, one page of rows, and the way to the next. All of the choice is in the address. */
export function renderList<Row extends Listed>(page: ListPage<Row>, above: Html | false | undefined): string {
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
