import { Router } from "express";
import type { Pool } from "../../database/database.ts";
import { readWithin } from "../../database/transaction.ts";
import { formatInstant } from "../../domain/order/instant.ts";
import type { HealthReader } from "../../health/health.ts";
import { eventAddress, orderAddress } from "../../health/pageAddresses.ts";
import { html, type Html } from "../../html/html.ts";
import { renderTable } from "../../html/parts.ts";
import { writeCsvTable } from "../../orders/exportOrders.sql.ts";
import {
  countListedOrders,
  positionOf,
  readFilterWords,
  readListedOrders,
  searchMirror,
  type FilterWords,
  type ListedOrder,
  type ListSort,
  type OrderMark,
  type SearchHit,
} from "../../orders/orderList.sql.ts";
import { readField, refuse, renderChoice, renderPaging, sendPage, type Page } from "../page.ts";
import { describeCount, describeWord, linkEvent, renderFreshness } from "../phrases.ts";
import type { Clock } from "../../process/clock.ts";
import { shareReading } from "../../process/shareReading.ts";
import { ORDER_LIST_COLUMNS, readMoment, type Column, type Moment } from "./delivery.ts";
import {
  parseOrderList,
  PERIODS,
  TEXT_LENGTH_MAX,
  toFieldFilter,
  WITHIN,
  writeOrderList,
  type OrderListQuery,
} from "./orderListAddress.ts";

const SHOWN = ORDER_LIST_COLUMNS.filter(({ card }) => card !== undefined);
const PAGE_ORDERS = 50;
/** Orders that are counted, and in a file. */
const COUNTED_MAX = 10_000;
/** Of each statement. A count that takes longer is left out, and the page says so. */
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
  const read = (query: OrderListQuery, limit: number) => {
    const filter = toListFilter(query, clock);
    return readWithin(pool, LIST_MS, (db) => readListedOrders(db, { ...filter, limit }));
  };
  router.get("/search", async (request, response) => {
    const text = readField(request.query["q"]).trim().slice(0, TEXT_LENGTH_MAX);
    const hits = text === "" ? [] : await searchMirror(pool, text);
    const [only, ...others] = hits.map(addressOf);
    const list = `/ops/orders${writeOrderList(parseOrderList({ q: text }))}`;
    response.redirect(303, only !== undefined && others.length === 0 ? only : list);
  });
  router.get("/orders", async (request, response) => {
    const query = parseOrderList(request.query);
    const { facts } = await health.read();
    const filter = { ...toListFilter(query, clock), max: COUNTED_MAX + 1 };
    const orders = await read(query, PAGE_ORDERS + 1);
    const page = {
      query,
      words: await readWords(),
      orders: orders?.slice(0, PAGE_ORDERS),
      hasMore: (orders?.length ?? 0) > PAGE_ORDERS,
      count: await readWithin(pool, COUNT_MS, (db) => countListedOrders(db, filter)),
      events: (query.q === "" ? [] : await searchMirror(pool, query.q)).filter(
        ({ eventId }) => eventId !== null,
      ),
      moment: readMoment(facts),
      freshness: renderFreshness(
        facts.sources.filter(({ sourceId }) => query.source === "" || sourceId === query.source),
      ),
    };
    sendPage(response, renderOrderList(page));
  });
  router.get("/orders.csv", async (request, response) => {
    const orders = await read({ ...parseOrderList(request.query), after: null }, COUNTED_MAX);
    if (orders === undefined)
      return refuse(response, 503, "This takes too long. Choose a source, a status or a period.");
    const moment = readMoment((await health.read()).facts);
    const rows = orders.map((order) => ORDER_LIST_COLUMNS.map(({ write }) => write(order, moment)));
    response.type("text/csv; charset=utf-8; header=present");
    response.attachment(`orders-${formatInstant(moment.now, 0).slice(0, 10)}.csv`);
    response.send(writeCsvTable([ORDER_LIST_COLUMNS.map(({ title }) => title), ...rows]));
  });
  return router;
}

function toListFilter(query: OrderListQuery, clock: Clock) {
  const { source, marks, q, dir, after } = query;
  const fields = toFieldFilter(query, clock.now());
  const sort = sortOf(query);
  return { sourceId: source || null, fields, marks, text: q || null, sort, ascending: dir === "up", after };
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
  /** Up to COUNTED_MAX + 1; undefined if counting took too long. */
  readonly count: number | undefined;
  /** Events with exactly the id that was looked for. */
  readonly events: readonly SearchHit[];
  readonly moment: Moment;
  /** How far the data of the listed sources reaches. */
  readonly freshness: Html;
}

const VIEWS: readonly (readonly [string, readonly OrderMark[]])[] = [
  ["All", []],
  ["Open", ["open"]],
  ["Late", ["late"]],
  ["Open and late", ["open", "late"]],
  ["Not yet verified", ["unverified"]],
  ["Corrected", ["corrected"]],
];
/** The orders that a filter selects. All of the filter is in the address, so a link or a bookmark keeps the view. */
function renderOrderList(page: OrderListPage): Page {
  const { query } = page;
  const body = html`<h1>Orders</h1>
    <nav class="views" aria-label="Views">
      <ul>
        ${VIEWS.map(([name, marks]) => renderView(query, name, marks))}
      </ul>
    </nav>
    ${renderForm(page)}
    <div id="orders" data-live data-calm>${renderResults(page)}</div>
    <p class="dim">
      The address of this page contains the filter and the sorting: save or send it to keep this view. Orders
      that the provider no longer has are not listed.
    </p>`;
  return { title: "Orders", body, section: "orders", live: query.after === null, searches: true };
}

function renderView(query: OrderListQuery, name: string, marks: readonly OrderMark[]): Html {
  const isCurrent = query.marks.join() === marks.join();
  return html`<li>
    <a href="/ops/orders${writeOrderList(query, { marks })}" ${isCurrent && html`aria-current="page"`}
      >${name}</a
    >
  </li> `;
}

function renderForm({ query, words }: OrderListPage): Html {
  const used = [query.source, query.status, query.branch, query.fleet, query.within, query.from, query.until];
  const count = used.filter((word) => word !== "").length;
  const branches = new Map(words.branches.map(({ id, name }) => [id, name]));
  return html`<form action="/ops/orders" class="filter" role="search">
    <div class="row">
      <label class="grow"
        >Reference, external id or event id
        <input
          type="search"
          name="q"
          value="${query.q}"
          maxlength="${TEXT_LENGTH_MAX}"
          autocomplete="off"
          placeholder="Any part, in any case"
        />
      </label>
      <button class="main">Search</button>
      ${count + query.marks.length + query.q.length > 0 && html`<a class="button" href="/ops/orders">Clear</a>`}
    </div>
    <details ${count > 0 && html`open`}>
      <summary>Filter${count > 0 ? ` (${count})` : ""} and period</summary>
      <div class="row">
        ${renderChoice({ label: "Source", name: "source", words: words.sources, chosen: query.source })}
        ${renderChoice({ label: "Status", name: "status", words: words.statuses, chosen: query.status, describe: describeWord })}
        ${renderChoice({ label: "Branch", name: "branch", words: [...branches.keys()], chosen: query.branch, describe: (id) => branches.get(id) ?? id })}
        ${renderChoice({ label: "Fleet", name: "fleet", words: words.fleets, chosen: query.fleet })}
      </div>
      <div class="row">
        ${renderChoice({ label: "Period of", name: "of", words: Object.keys(PERIODS), chosen: query.of, any: null, describe: titleIn(PERIODS) })}
        ${renderChoice({ label: "Within", name: "within", words: Object.keys(WITHIN), chosen: query.within, any: "any time", describe: titleIn(WITHIN) })}
        ${renderMinuteField("From", "from", query.from)} ${renderMinuteField("Until", "until", query.until)}
      </div>
      ${query.marks.map((mark) => html`<input type="hidden" name="is" value="${mark}" />`)}
      <input type="hidden" name="sort" value="${query.sort}" />
      ${query.dir !== "" && html`<input type="hidden" name="dir" value="up" />`}
      <button>Show</button>
    </details>
  </form>`;
}

const titleIn = (words: Readonly<Record<string, { readonly title: string }>>) => (word: string) =>
  words[word]?.title ?? word;

function renderMinuteField(label: string, name: string, value: string): Html {
  return html`<label
    >${label}, <span data-zone>UTC</span>
    <input type="datetime-local" name="${name}" value="${value}" />
  </label>`;
}

function renderResults(page: OrderListPage): Html {
  const { query, orders, hasMore, moment, events } = page;
  if (orders === undefined)
    return html`<p class="warn" role="status">
      This took longer than allowed and was stopped. Choose a source, a branch, a status or a period, or enter
      more of the name.
    </p>`;
  const last = orders.at(-1);
  const after = hasMore && last !== undefined ? positionOf(last, sortOf(query)) : null;
  return html`${page.freshness}
    ${events.map(({ sourceId, eventId }) => html`<p>Event ${linkEvent(sourceId, eventId)} of ${sourceId}.</p>`)}
    <div class="above">
      <p id="count">${describeMatches(page)}</p>
      ${orders.length !== 0 && html`<a href="/ops/orders.csv${writeOrderList(query)}" download>${describeFile(page)}</a>`}
    </div>
    ${
      orders.length === 0
        ? html`<p class="empty">No order matches. Remove a filter, or search for less of the name.</p>`
        : renderTable({
            title: "Orders",
            columns: SHOWN.map((column) => renderHeading(query, column)),
            cards: SHOWN.map(({ card }) => card ?? ""),
            rows: orders.map((order) => SHOWN.map(({ show }) => show(order, moment))),
          })
    }
    ${renderPaging({
      first: query.after === null ? null : `/ops/orders${writeOrderList(query)}`,
      next: after === null ? null : `/ops/orders${writeOrderList(query, { after })}`,
    })}`;
}

function describeMatches({ count, orders, query }: OrderListPage): string {
  const shown = orders?.length ?? 0;
  // Orders without this time are not in a list sorted by it.
  const placed = query.sort === "delivery" ? ", of those with a planned delivery" : "";
  if (count === undefined) return `${shown} shown; there are too many to count`;
  const orders_ = count === 1 ? "order" : "orders";
  const many = count > COUNTED_MAX ? `${describeCount(COUNTED_MAX)}+` : describeCount(count);
  return `${many} ${orders_}; ${shown} shown${placed}`;
}

function describeFile({ count }: OrderListPage): string {
  return count === undefined || count > COUNTED_MAX
    ? `Download CSV (first ${describeCount(COUNTED_MAX)})`
    : "Download CSV";
}

/** A column's title; as a link if the list can be sorted by it. A second use turns the order. */
function renderHeading(query: OrderListQuery, { title, sort }: Column): Html | string {
  if (sort === undefined) return title;
  const isCurrent = query.sort === sort;
  const dir = isCurrent && query.dir === "" ? "up" : "";
  const [arrow, order] = query.dir === "" ? ["↓", "newest first"] : ["↑", "oldest first"];
  return html`<a href="/ops/orders${writeOrderList(query, { sort, dir })}"
    >${title}${isCurrent && html` <span aria-hidden="true">${arrow}</span><span class="hidden-text">, ${order}</span>`}</a
  >`;
}
