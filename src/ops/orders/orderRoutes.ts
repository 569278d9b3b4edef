import { Router } from "express";
import type { Request } from "express";
import type { Pool } from "../../database/database.ts";
import { requestRefetch } from "../lists/opsActions.sql.ts";
import { readOrderSurroundings } from "./opsOrder.sql.ts";
import { searchMirror } from "./opsSearch.sql.ts";
import { findOrders, readTimeline } from "./timeline.sql.ts";
import { actorOf, mayActOn, viewerOf } from "../auth/viewer.ts";
import { refuseOtherSource } from "../auth/writeGuard.ts";
import { renderOrder } from "./orderPage.ts";
import { orderAddress } from "../overview/phrases.ts";
import { readField, refuse } from "../html/requests.ts";
import { renderSearch, soleAddress } from "./searchPage.ts";

const ENTRIES_MAX = 200;
/** The maximum length of an externalOrderId; no other searchable name is longer. */
const QUERY_LENGTH_MAX = 512;

/** The search, the page of one order, and the request for a re-read. */
export function makeOrderRoutes(pool: Pool): Router {
  const router = Router();
  router.get("/search", async (request, response) => {
    const query = readField(request.query["q"]).trim().slice(0, QUERY_LENGTH_MAX);
    const hits = query === "" ? [] : await searchMirror(pool, query);
    const address = soleAddress(hits);
    if (address !== undefined) response.redirect(303, address);
    else response.type("html").send(renderSearch({ query, hits, viewer: viewerOf(response) }));
  });
  router.get("/orders/:source/:reference", async (request, response) => {
    const { sourceId, reference } = readOrderName(request);
    const [found, timeline, around] = await Promise.all([
      findOrders(pool, { text: reference, sourceId }),
      readTimeline(pool, { sourceId, reference, limit: ENTRIES_MAX }),
      readOrderSurroundings(pool, { sourceId, reference }),
    ]);
    const order = found.find((each) => each.reference === reference);
    const known = order !== undefined || timeline.length > 0;
    const viewer = viewerOf(response);
    const story = { sourceId, reference, order, timeline, entriesMax: ENTRIES_MAX, around, viewer };
    response
      .status(known ? 200 : 404)
      .type("html")
      .send(renderOrder(story));
  });
  router.post("/orders/:source/:reference/refetch", async (request, response) => {
    const { sourceId, reference } = readOrderName(request);
    const { sourceKnown } = await readOrderSurroundings(pool, { sourceId, reference });
    // Nobody polls an unknown source, so a request for it would wait forever.
    if (!sourceKnown) return refuse(response, 404, "This source does not exist.");
    if (!mayActOn(response, sourceId)) return refuseOtherSource(response);
    await requestRefetch(pool, { actor: actorOf(response), sourceId, reference });
    response.redirect(303, orderAddress({ sourceId, reference }));
  });
  return router;
}

function readOrderName({ params }: Request): { sourceId: string; reference: string } {
  return { sourceId: readField(params["source"]), reference: readField(params["reference"]) };
}
