import { Router } from "express";
import type { Request } from "express";
import type { Pool } from "../../database/database.ts";
import { readWithin } from "../../database/transaction.ts";
import { formatInstant } from "../../domain/order/instant.ts";
import { writeCsvTable } from "../../orders/exportOrders.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import { shareReading } from "../../runtime/lifecycle/shareReading.ts";
import { viewerOf } from "../auth/viewer.ts";
import type { HealthReader } from "../../health/health.ts";
import { renderFreshness } from "../html/freshness.ts";
import { readField, refuse, sendPage } from "../html/requests.ts";
import { findColumn, readMoment } from "./orderColumns.ts";
import {
  countListedOrders,
  findOrderNames,
  findOrdersOfEvents,
  readFilterWords,
  readListedOrders,
  searchMirror,
} from "./orderList.sql.ts";
import type { ListedOrdersQuery, SearchHit } from "./orderList.sql.ts";
import { COUNTED_MAX, CSV_MAX, renderOrderList } from "./orderListPage.ts";
import { parseOrderList, TEXT_LENGTH_MAX, toFieldFilter, writeOrderList } from "./orderListQuery.ts";
import type { OrderListQuery } from "./orderListQuery.ts";
import { orderAddress } from "../overview/phrases.ts";

const PAGE_ORDERS = 50;
/** A text that more names contain is looked for while the orders are listed, which then find enough soon. */
const NAMES_MAX = 1_000;
const EVENTS_MAX = 200;
/** Of each statement. A count or a search of event ids that takes longer is left out, and the page says so. */
const LIST_MS = 2_500;
const COUNT_MS = 1_000;
const EVENTS_MS = 1_500;
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
    const address = soleAddress(text === "" ? [] : await searchMirror(pool, text));
    response.redirect(303, address ?? `/ops/orders${writeOrderList(parseOrderList({ q: text }))}`);
  });
  router.get("/orders", async (request, response) => {
    const query = parseOrderList(request.query);
    const { facts } = await health.read();
    const { listed, eventsCut, hits } = await select(pool, query, clock);
    const page = { ...query, limit: PAGE_ORDERS + 1 };
    const orders =
      listed && (await readWithin(pool, LIST_MS, (db) => readListedOrders(db, { ...listed, ...page })));
    const count =
      listed &&
      (await readWithin(pool, COUNT_MS, (db) => countListedOrders(db, { ...listed, max: COUNTED_MAX + 1 })));
    sendPage(
      response,
      renderOrderList({
        query,
        words: await readWords(),
        orders: orders?.slice(0, PAGE_ORDERS),
        hasMore: (orders?.length ?? 0) > PAGE_ORDERS,
        count,
        eventsCut,
        strayEvents: hits.filter(({ reference, eventId }) => reference === null && eventId !== null),
        moment: readMoment(facts),
        freshness: renderFreshness(
          facts.sources.filter(({ sourceId }) => query.source === "" || sourceId === query.source),
        ),
        viewer: viewerOf(response),
      }),
    );
  });
  router.get("/orders.csv", async (request: Request, response) => {
    const query = { ...parseOrderList(request.query), after: null };
    const { listed } = await select(pool, query, clock);
    const page = { ...query, limit: CSV_MAX };
    const orders =
      listed && (await readWithin(pool, LIST_MS, (db) => readListedOrders(db, { ...listed, ...page })));
    if (orders === undefined)
      return refuse(response, 503, "This takes too long. Choose a source, a status or a period.");
    const moment = readMoment((await health.read()).facts);
    const columns = query.columns.map(findColumn);
    const rows = orders.map((order) => columns.map(({ write }) => write(order, moment)));
    response.type("text/csv; charset=utf-8; header=present");
    response.attachment(`orders-${formatInstant(moment.now, 0).slice(0, 10)}.csv`);
    response.send(writeCsvTable([columns.map(({ title }) => title), ...rows]));
  });
  return router;
}

/** What a query selects. */
interface Selection {
  /** Undefined if the search for names took too long. */
  readonly listed: ListedOrdersQuery | undefined;
  readonly eventsCut: boolean;
  /** What has exactly the text as its name; an event that names no order is in no list of orders. */
  readonly hits: readonly SearchHit[];
}

/** Names are first looked for in the indexes: only a text that many contain is left to the list itself. */
async function select(pool: Pool, query: OrderListQuery, clock: Clock): Promise<Selection> {
  const sourceId = query.source === "" ? null : query.source;
  const filter = { sourceId, fields: toFieldFilter(query, clock.now()), marks: query.marks };
  const { text } = query;
  if (text === "") return { listed: { ...filter, named: null, text: null }, eventsCut: false, hits: [] };
  const find = { text, sourceId, limit: NAMES_MAX + 1 };
  const names = await readWithin(pool, LIST_MS, (db) => findOrderNames(db, find));
  if (names === undefined) return { listed: undefined, eventsCut: false, hits: [] };
  if (names.length > NAMES_MAX) {
    return {
      listed: { ...filter, named: null, text },
      eventsCut: false,
      hits: await searchMirror(pool, text),
    };
  }
  const ofEvents = await readWithin(pool, EVENTS_MS, (db) =>
    findOrdersOfEvents(db, { ...find, limit: EVENTS_MAX }),
  );
  const hits = await searchMirror(pool, text);
  const exact = hits.flatMap(({ sourceId: id, reference }) =>
    reference === null ? [] : [{ sourceId: id, reference }],
  );
  return {
    listed: { ...filter, named: [...names, ...(ofEvents ?? exact)], text: null },
    eventsCut: ofEvents === undefined || ofEvents.length >= EVENTS_MAX,
    hits,
  };
}

/** The page that a search leads to directly, if there is only one result. */
function soleAddress(hits: readonly SearchHit[]): string | undefined {
  const addresses = new Set(hits.map(addressOf));
  const [only] = addresses;
  return addresses.size === 1 ? only : undefined;
}

function addressOf({ sourceId, reference, quarantineId }: SearchHit): string | undefined {
  if (reference !== null) return orderAddress({ sourceId, reference });
  return quarantineId === null ? undefined : `/ops/quarantine/${quarantineId}`;
}
