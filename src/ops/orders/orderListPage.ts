import { Router } from "express";
import type { Pool } from "../../database/database.ts";
import { readWithin } from "../../database/transaction.ts";
import { formatInstant } from "../../domain/order/instant.ts";
import { wordFor } from "../../domain/wordFor.ts";
import type { Standing } from "../../health/conditions/standing.ts";
import type { HealthReader } from "../../health/health.ts";
import { eventAddress, orderAddress } from "../../health/pageAddresses.ts";
import { html, type Html } from "../../html/html.ts";
import { renderChoice, renderTable } from "../../html/parts.ts";
import { writeCsv } from "../../orders/exportOrders.sql.ts";
import {
  countListedOrders,
  ORDER_MARKS,
  positionOf,
  readFilterWords,
  readListedCells,
  readListedOrders,
  searchMirror,
  type CountedMark,
  type FilterWords,
  type ListedOrder,
  type ListSort,
  type SearchHit,
} from "../../orders/orderList.sql.ts";
import { readField, redirect, sendRefusal, renderPaging, sendPage, type Page } from "../page.ts";
import {
  describeCount,
  describeWord,
  linkEvent,
  renderFirstSteps,
  renderFreshness,
  renderSentence,
} from "../phrases.ts";
import type { Clock } from "../../process/clock.ts";
import { shareReading } from "../../process/shareReading.ts";
import { TEXT_LENGTH_MAX } from "../lists/choice.ts";
import { listColumns, readMoment, type Moment } from "./delivery.ts";
import {
  parseOrderList,
  PERIODS,
  toFieldFilter,
  WITHIN,
  writeOrderList,
  type OrderListQuery,
} from "./orderListAddress.ts";

const PAGE_ORDERS = 50;
/** Orders that are counted, and in a file. */
const COUNTED_MAX = 10_000;
/** Time for each statement. A count that takes longer is left out, and the page says so. */
const LIST_MS = 2_500;
const COUNT_MS = 1_000;
const WORDS_HELD_MS = 30_000;

export interface OrderListDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly health: HealthReader;
}

/** The list of orders, the same as a file, and the search of the page's head. */
export function makeOrderListRoutes({ pool, clock, health }: OrderListDeps): Router {
  const router = Router();
  const readWords = shareReading(() => readFilterWords(pool), { clock, holdMs: WORDS_HELD_MS });
  router.get("/search", async (request, response) => {
    const text = readField(request.query["q"]).trim().slice(0, TEXT_LENGTH_MAX);
    const hits = text === "" ? [] : await searchMirror(pool, text);
    const [only, ...others] = hits.map(addressOf);
    const list = `/ops/orders${writeOrderList(parseOrderList({ q: text }))}`;
    redirect(response, only !== undefined && others.length === 0 ? only : list);
  });
  router.get("/orders", async (request, response) => {
    const query = parseOrderList(request.query);
    const { facts } = await health.read();
    const filter = toListFilter(query, clock);
    const orders = await readWithin(pool, LIST_MS, (db) =>
      readListedOrders(db, { ...filter, limit: PAGE_ORDERS + 1 }),
    );
    const page = {
      query,
      words: await readWords(),
      orders: orders?.slice(0, PAGE_ORDERS),
      hasMore: (orders?.length ?? 0) > PAGE_ORDERS,
      counts: await readWithin(pool, COUNT_MS, (db) =>
        countListedOrders(db, { ...filter, max: COUNTED_MAX + 1 }),
      ),
      events: (query.q === "" ? [] : await searchMirror(pool, query.q)).filter(
        ({ eventId }) => eventId !== null,
      ),
      moment: readMoment(facts),
      sources: facts.sources.filter(({ sourceId }) => query.source === "" || sourceId === query.source),
    };
    sendPage(response, renderOrderList(page));
  });
  router.get("/orders.csv", async (request, response) => {
    const filter = toListFilter({ ...parseOrderList(request.query), after: null }, clock);
    const rows = await readWithin(pool, LIST_MS, (db) =>
      readListedCells(db, { ...filter, limit: COUNTED_MAX }),
    );
    if (rows === undefined)
      return sendRefusal(response, 503, "This takes too long. Choose a source, a status or a period.");
    response.type("text/csv; charset=utf-8; header=present");
    response.attachment(`orders-${formatInstant(clock.now(), 0).slice(0, 10)}.csv`);
    response.send(writeCsv(rows));
  });
  return router;
}

function toListFilter(query: OrderListQuery, clock: Clock) {
  const { source, is, q, dir, after } = query;
  const mark = ORDER_MARKS.find((each) => each === is) ?? null;
  const fields = toFieldFilter(query, clock.now());
  const sort = sortOf(query);
  return { sourceId: source || null, fields, mark, text: q || null, sort, ascending: dir === "up", after };
}

const sortOf = ({ sort }: OrderListQuery) => sort as ListSort;

function addressOf({ sourceId, reference, eventId }: SearchHit): string {
  return reference === null ? eventAddress(sourceId, eventId ?? "") : orderAddress({ sourceId, reference });
}

interface OrderListPage {
  readonly query: OrderListQuery;
  readonly words: FilterWords;
  /** Undefined if the statement took too long. */
  readonly orders: readonly ListedOrder[] | undefined;
  readonly hasMore: boolean;
  /** Number of orders of each view, up to COUNTED_MAX + 1; undefined if counting took too long. */
  readonly counts: Awaited<ReturnType<typeof countListedOrders>> | undefined;
  /** Events with exactly the id that was looked for. */
  readonly events: readonly SearchHit[];
  readonly moment: Moment;
  /** The listed sources. */
  readonly sources: readonly Standing[];
}

/** Views that people look for, each as changes of the address; what is late begins with the most overdue. */
const VIEWS: readonly (readonly [name: string, counted: CountedMark | "all", Partial<OrderListQuery>])[] = [
  ["All", "all", { is: "", sort: "updated", dir: "" }],
  ["Late now", "late", { is: "late", sort: "delivery", dir: "up" }],
  ["Open", "open", { is: "open", sort: "updated", dir: "" }],
  ["Not verified", "unverified", { is: "unverified", sort: "updated", dir: "" }],
];

/**
 * The orders that a filter selects. All of the filter is in the address, so a link or a bookmark keeps the view. How
 * far the data reaches and the counts are always kept up to date; rows that would move wait until somebody asks for
 * them.
 */
function renderOrderList(page: OrderListPage): Page {
  const { query } = page;
  const body = html`<h1>Orders</h1>
    <div id="freshness" data-live>${renderFreshness(page.sources)}</div>
    <nav class="views" id="views" aria-label="Views" data-live>${renderViews(page)}</nav>
    ${renderForm(page)}
    <div id="found" data-live>${renderFound(page)}</div>
    <div id="orders" data-live data-calm>${renderResults(page)}</div>
    <p class="dim">
      The address of this page contains the filter and the sorting: save or send it to keep this view. Orders
      that the provider no longer has are not listed.
    </p>`;
  return { title: "Orders", body, section: "orders", live: query.after === null, searches: true };
}

function renderViews({ query, counts }: OrderListPage): Html {
  return html`<ul>
    ${VIEWS.map(([name, counted, changes]) => {
      const count = counts?.[counted];
      return html`<li>
        <a
          href="/ops/orders${writeOrderList(query, changes)}"
          ${query.is === changes.is && html`aria-current="page"`}
          >${name}
          ${count !== undefined && html`<span class="many ${counted === "late" && count > 0 && "alert"}">${describeMany(count)}</span>`}</a
        >
      </li> `;
    })}
  </ul>`;
}

const describeMany = (count: number) =>
  count > COUNTED_MAX ? `${describeCount(COUNTED_MAX)}+` : describeCount(count);

function renderForm({ query, words }: OrderListPage): Html {
  const { source, status, branch, fleet, within, from, until } = query;
  const used = [source, status, branch, fleet, within, from, until].filter((word) => word !== "");
  const isCorrected = query.is === "corrected";
  const count = used.length + Number(isCorrected);
  const branches = new Map(words.branches.map(({ id, name }) => [id, name]));
  return html`<form action="/ops/orders" class="filter" role="search">
    <div class="row">
      <label class="grow"
        ><span class="hidden-text">Reference, external id or event id</span>
        <input
          type="search"
          name="q"
          value="${query.q}"
          maxlength="${TEXT_LENGTH_MAX}"
          autocomplete="off"
          placeholder="Reference, external id or event id"
        />
      </label>
      <button class="main">Search</button>
      ${(count > 0 || query.q !== "") && html`<a class="button" href="/ops/orders">Clear</a>`}
    </div>
    <details ${count > 0 && html`open`}>
      <summary>Filter${count > 0 ? ` (${count})` : ""} and period</summary>
      <div class="row">
        ${renderChoice({ label: "Source", name: "source", words: words.sources, chosen: query.source })}
        ${renderChoice({ label: "Status", name: "status", words: words.statuses, chosen: query.status, describe: describeWord })}
        ${renderChoice({ label: "Branch", name: "branch", words: [...branches.keys()], chosen: query.branch, describe: (id) => branches.get(id) ?? id })}
        ${renderChoice({ label: "Fleet", name: "fleet", words: words.fleets, chosen: query.fleet })}
        ${renderChoice({ label: "Only", name: "is", words: ORDER_MARKS, chosen: query.is, any: "all orders", describe: describeWord })}
      </div>
      <div class="row">
        ${renderChoice({ label: "Period of", name: "of", words: Object.keys(PERIODS), chosen: query.of, any: null, describe: titleIn(PERIODS) })}
        ${renderChoice({ label: "Within", name: "within", words: Object.keys(WITHIN), chosen: query.within, any: "any time", describe: titleIn(WITHIN) })}
        ${renderMinuteField("From", "from", query.from)} ${renderMinuteField("Until", "until", query.until)}
        <button>Show</button>
      </div>
      <input type="hidden" name="sort" value="${query.sort}" />
      ${query.dir !== "" && html`<input type="hidden" name="dir" value="up" />`}
    </details>
  </form>`;
}

const titleIn = (words: Readonly<Record<string, { readonly title: string }>>) => (word: string) =>
  words[word]?.title ?? word;

function renderMinuteField(label: string, name: string, value: string): Html {
  return html`<label
    ><span>${label}, <span data-zone>UTC</span></span>
    <input type="datetime-local" name="${name}" value="${value}" />
  </label>`;
}

/** Renders what was found beside the rows: events of that name, how many orders, and the same as a file. */
function renderFound(page: OrderListPage): Html {
  const { events, orders, query } = page;
  return html`${events.map(({ sourceId, eventId }) => html`<p>Event ${linkEvent(sourceId, eventId)} of ${sourceId}.</p>`)}
    <div class="above">
      <p id="count" class="dim">${describeMatches(page)}</p>
      ${orders !== undefined && orders.length !== 0 && html`<a href="/ops/orders.csv${writeOrderList(query)}" download>Download CSV</a>`}
    </div>`;
}

function renderResults(page: OrderListPage): Html {
  const { query, orders, hasMore, moment, words } = page;
  if (orders === undefined)
    return html`<p class="warn" role="status">
      This took longer than allowed and was stopped. Choose a source, a branch, a status or a period, or enter
      more of the name.
    </p>`;
  if (orders.length === 0) return renderNothing(page);
  const last = orders.at(-1);
  const after = hasMore && last !== undefined ? positionOf(last, sortOf(query)) : null;
  const columns = listColumns(words.sources.length > 1);
  return html`${renderTable({
    title: "Orders",
    columns: columns.map((column) => renderHeading(query, column)),
    cards: columns.map(({ card }) => card),
    rows: orders.map((order) => columns.map(({ show }) => show(order, moment))),
    keys: orders.map(({ sourceId, reference }) => `${sourceId} ${reference}`),
  })}
  ${renderPaging({
    first: query.after === null ? null : `/ops/orders${writeOrderList(query)}`,
    next: after === null ? null : `/ops/orders${writeOrderList(query, { after })}`,
  })}`;
}

/** Why no order is shown: the choice, or a mirror that has none yet, which says what comes next. */
function renderNothing({ query, sources }: OrderListPage): Html {
  if (writeOrderList(query) !== "" || sources.some(({ hasOrders }) => hasOrders))
    return html`<p class="empty">No order matches this choice. <a href="/ops/orders">Show all orders</a></p>`;
  return html`<p class="empty">No order has come yet.</p>
    ${renderFirstSteps(sources)}`;
}

function describeMatches({ counts, orders, query, hasMore }: OrderListPage): Html {
  const shown = orders?.length ?? 0;
  // Orders without this time are not in a list sorted by it.
  const placed = query.sort === "delivery" && query.is !== "late" ? ", of those with a planned delivery" : "";
  const of = VIEWS.find(([, , { is }]) => is === query.is)?.[1];
  const isWhole = orders !== undefined && !hasMore && query.after === null;
  const count = (of && counts?.[of]) ?? (isWhole ? shown : undefined);
  if (count === undefined)
    return html`${orders === undefined ? "Not counted" : `${shown} shown; there are more`}`;
  const file =
    count > COUNTED_MAX ? `; a file has ${describeCount(COUNTED_MAX)}, \`order-mirror export\` all` : "";
  return renderSentence(`${describeMany(count)} ${wordFor(count, "order")}; ${shown} shown${placed}${file}`);
}

/** A column's title; as a link if the list can be sorted by it. A second use turns the order. */
function renderHeading(
  query: OrderListQuery,
  { title, sort }: { title: string; sort?: ListSort },
): Html | string {
  if (sort === undefined) return title;
  const isCurrent = query.sort === sort;
  const dir = isCurrent && query.dir === "" ? "up" : "";
  const [arrow, order] = query.dir === "" ? ["↓", "newest first"] : ["↑", "oldest first"];
  return html`<a href="/ops/orders${writeOrderList(query, { sort, dir })}"
    >${title}${isCurrent && html` <span aria-hidden="true">${arrow}</span><span class="hidden-text">, ${order}</span>`}</a
  >`;
}
