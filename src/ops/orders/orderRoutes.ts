import { Router } from "express";
import type { Request } from "express";
import type { Pool } from "../../database/database.ts";
import { requestRefetches } from "../../poll/ledger/refetches.sql.ts";
import { carryOut } from "../lists/carryOut.ts";
import type { HealthReader } from "../../health/health.ts";
import { renderFreshness } from "../html/freshness.ts";
import { readMoment } from "./orderColumns.ts";
import { readDelivery, readOrderSurroundings, readTimeline } from "./order.sql.ts";
import { viewerOf } from "../auth/viewer.ts";
import { renderOrder } from "./orderPage.ts";
import { orderAddress } from "../overview/phrases.ts";
import { readField, refuse, sendPage } from "../html/requests.ts";

const ENTRIES_MAX = 200;

/** The page of one order, and the request for a re-read. */
export function makeOrderRoutes({ pool, health }: { pool: Pool; health: HealthReader }): Router {
  const router = Router();
  router.get("/orders/:source{/:reference}", async (request, response, next) => {
    const { sourceId, reference } = readOrderName(request);
    if (reference === "") return next();
    const [{ facts }, delivery, timeline, around] = await Promise.all([
      health.read(),
      readDelivery(pool, { sourceId, reference }),
      readTimeline(pool, { sourceId, reference, limit: ENTRIES_MAX }),
      readOrderSurroundings(pool, { sourceId, reference }),
    ]);
    const known = delivery !== undefined || timeline.length > 0;
    const story = {
      sourceId,
      reference,
      delivery,
      timeline,
      entriesMax: ENTRIES_MAX,
      around,
      moment: readMoment(facts),
      freshness: renderFreshness(facts.sources.filter((source) => source.sourceId === sourceId)),
      viewer: viewerOf(response),
    };
    sendPage(response.status(known ? 200 : 404), renderOrder(story));
  });
  router.post("/orders/:source{/:reference}/refetch", async (request, response, next) => {
    const { sourceId, reference } = readOrderName(request);
    if (reference === "") return next();
    const { sourceKnown } = await readOrderSurroundings(pool, { sourceId, reference });
    // Nobody polls an unknown source, so a request for it would wait forever.
    if (!sourceKnown) return refuse(response, 404, "This source does not exist.");
    const read = { sourceId, references: [reference], reason: "requested by a person" };
    const action = { action: "refetch", sourceId, target: reference };
    const run = () => requestRefetches(pool, read).then(() => 1);
    await carryOut(pool, response, action, run, orderAddress({ sourceId, reference }));
  });
  return router;
}

/** As orderAddress writes it. */
function readOrderName({ params, query }: Request): { sourceId: string; reference: string } {
  return {
    sourceId: readField(params["source"]),
    reference: readField(params["reference"] ?? query["reference"]),
  };
}
