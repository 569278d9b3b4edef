import type { RequestHandler } from "express";
import { CARD_FORMATS, WRITE_CARD } from "../../card/cardFormats.ts";
import { makeReportCard, monthPeriod, shiftMonth } from "../../card/reportCard.ts";
import type { CardSection, ReportCard } from "../../card/reportCard.ts";
import { readProviderFigures } from "../../card/reportCard.sql.ts";
import type { Pool } from "../../database/database.ts";
import { formatInstant } from "../../domain/order/instant.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import { viewerOf } from "../auth/viewer.ts";
import { renderPage } from "../html/page.ts";
import { readField, refuse } from "../html/requests.ts";
import { numberColumn, renderTable } from "../../html/table.ts";
import { renderWarning } from "../../html/marks.ts";

/** What the formats are called, the types of the files, and how their names end. */
const FILES = {
  markdown: { name: "Markdown", type: "text/markdown", ending: "md" },
  csv: { name: "CSV", type: "text/csv", ending: "csv" },
  json: { name: "JSON", type: "application/json", ending: "json" },
} as const;

/**
 * The report card of a source's provider, for reading and printing, or as a file with `format`. Without `month` of the
 * last whole month.
 */
export function makeReportCardPage({
  pool,
  clock,
}: {
  pool: Pool;
  clock: Clock;
}): RequestHandler<{ sourceId: string }> {
  return async ({ params, query }, response) => {
    const { sourceId } = params;
    const month = readField(query["month"]) || lastMonth(clock);
    const period = monthPeriod(month);
    if (period === undefined) return refuse(response, 400, "The month must be written like 2026-11.");
    const figures = await readProviderFigures(pool, { sourceId, ...period });
    if (figures === undefined) return refuse(response, 404, "There is no source of that name.");
    const card = makeReportCard({ sourceId, month, period }, figures);
    const format = CARD_FORMATS.find((name) => name === query["format"]);
    if (format === undefined) {
      const title = `Report card of ${sourceId}, ${month}`;
      const body = renderCard(card, { title, isOver: period.until <= figures.now });
      response.type("html").send(renderPage({ title, body, viewer: viewerOf(response), section: "sources" }));
      return;
    }
    const { type, ending } = FILES[format];
    response
      .attachment(`report-card-${sourceId}-${month}.${ending}`)
      .type(type)
      .send(WRITE_CARD[format](card));
  };
}

function cardAddress(sourceId: string, month: string): string {
  return `/ops/sources/${encodeURIComponent(sourceId)}/report-card?month=${month}`;
}

function lastMonth(clock: Clock): string {
  return shiftMonth(formatInstant(clock.now(), 0).slice(0, 7), -1);
}

function renderCard(card: ReportCard, { title, isOver }: { title: string; isOver: boolean }): Html {
  const { sourceId, month, provider, madeAt, remarks, sections } = card;
  const to = (by: number) => cardAddress(sourceId, shiftMonth(month, by));
  return html`<h1>${title}</h1>
    <p>What ${provider} did, as the mirror saw it. All times are UTC; made at ${madeAt}.</p>
    ${remarks.length !== 0 && html`<p>${renderWarning(`Not the whole month. ${remarks.join(" ")}`)}</p>`}
    <nav class="paging actions" aria-label="Months and files">
      <a class="button" href="${to(-1)}" rel="prev">Previous month</a>
      ${isOver && html`<a class="button" href="${to(1)}" rel="next">Next month</a>`}
      ${CARD_FORMATS.map((format) => html`<a class="button" href="${to(0)}&format=${format}">As ${FILES[format].name}</a> `)}
    </nav>
    ${sections.map(renderSection)}`;
}

function renderSection({ title, lines, notes }: CardSection): Html {
  return html`<h2>${title}</h2>
    ${renderTable({
      title,
      columns: ["Figure", numberColumn("Value"), { title: "Meaning", kind: "sentence" }],
      rows: lines.map((line) => [line.title, line.text, line.meaning]),
      cards: true,
    })}
    ${notes.map((note) => html`<p>${note}</p>`)}`;
}
