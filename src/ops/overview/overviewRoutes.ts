import { Router } from "express";
import type { RateRule } from "../../domain/window/budget.ts";
import { formatInstant } from "../../domain/order/instant.ts";
import type { Pool } from "../../database/database.ts";
import type { HealthReader } from "../../health/health.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";
import { makeOverviewReader } from "./readOverview.ts";
import { LISTS } from "../lists/listPages.ts";
import { makeOverviewUpdates } from "./overviewUpdates.ts";
import type { Sessions } from "../auth/sessions.ts";
import { viewerOf } from "../auth/viewer.ts";
import { renderOverview } from "./overviewPage.ts";
import { parseTailFilter } from "./tailLine.ts";

/** The overview, its live updates, and the lists behind its figures. */
export function makeOverviewRoutes(deps: {
  pool: Pool;
  clock: Clock;
  logger: Logger;
  health: HealthReader;
  listRate: RateRule;
  signal: AbortSignal;
  findOpenSessions: Sessions["findOpen"];
}): Router {
  const { pool, clock } = deps;
  const readOverview = makeOverviewReader(deps);
  const feed = makeOverviewUpdates({ ...deps, readOverview });
  const router = Router();
  router.get("/", async (request, response) => {
    const filter = parseTailFilter(request.query);
    const overview = await readOverview();
    const lines = await feed.begin(filter);
    const asOf = formatInstant(clock.now(), 0);
    const viewer = viewerOf(response);
    response.type("html").send(renderOverview({ overview, lines, filter, asOf, viewer }));
  });
  router.get("/updates", feed.stream);
  for (const [path, serve] of Object.entries(LISTS)) router.get(path, serve(pool));
  return router;
}
