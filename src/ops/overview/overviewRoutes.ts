import { Router } from "express";
import type { Request } from "express";
import type { RateRule } from "../../domain/window/budget.ts";
import { formatInstant } from "../../domain/order/instant.ts";
import type { Pool } from "../../database/database.ts";
import type { HealthReader } from "../../health/health.ts";
import { readSlowEvents } from "../../health/opsFigures.sql.ts";
import {
  readLostEvents,
  readSentRequests,
  readWaitingEvents,
  readWaitingRefetches,
  readWalks,
  readTasks,
} from "../lists/opsLists.sql.ts";
import type { ListQuery } from "../lists/opsLists.sql.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";
import { makeOverviewReader } from "./readOverview.ts";
import { LIST_LINES } from "../lists/listPage.ts";
import type { ListContext } from "../lists/listPage.ts";
import {
  renderLostEvents,
  renderRefetches,
  renderSentRequests,
  renderSlowEvents,
  renderWaiting,
  renderWalks,
  renderTaskList,
} from "../lists/listPages.ts";
import { makeOverviewUpdates } from "./overviewUpdates.ts";
import type { Sessions } from "../auth/sessions.ts";
import { viewerOf } from "../auth/viewer.ts";
import { renderOverview } from "./overviewPage.ts";
import { readField } from "../html/requestText.ts";
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
  const overviewReader = makeOverviewReader(deps);
  const feed = makeOverviewUpdates({ ...deps, overviewReader });
  const router = Router();
  router.get("/", async (request, response) => {
    const filter = parseTailFilter(request.query);
    const overview = await overviewReader.read();
    const lines = await feed.begin(filter);
    const asOf = formatInstant(clock.now(), 0);
    const viewer = viewerOf(response);
    response.type("html").send(renderOverview({ overview, lines, filter, asOf, viewer }));
  });
  router.get("/updates", feed.stream);

  function addList<Row>(
    path: string,
    read: (pool: Pool, query: ListQuery) => Promise<Row[]>,
    render: (rows: readonly Row[], context: ListContext) => string,
  ): void {
    router.get(path, async (request, response) => {
      const sourceId = readSource(request);
      const rows = await read(pool, { sourceId, limit: LIST_LINES });
      response.type("html").send(render(rows, { viewer: viewerOf(response), sourceId }));
    });
  }
  addList("/lost", readLostEvents, renderLostEvents);
  addList("/slow", readSlowEvents, renderSlowEvents);
  addList("/waiting", readWaitingEvents, renderWaiting);
  addList("/refetches", readWaitingRefetches, renderRefetches);
  addList("/walks", readWalks, renderWalks);
  addList("/requests", readSentRequests, renderSentRequests);
  addList("/tasks", readTasks, renderTaskList);
  return router;
}

/** Null: the list covers every source. */
function readSource({ query }: Request): string | null {
  const text = readField(query["source"]);
  return text === "" ? null : text;
}
