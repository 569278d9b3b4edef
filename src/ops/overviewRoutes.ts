import { Router } from "express";
import type { Request } from "express";
import type { RateRule } from "../domain/budget.ts";
import { formatInstant } from "../domain/instant.ts";
import type { Pool } from "../mirror/database.ts";
import { readSlowEvents } from "../mirror/opsFigures.ts";
import {
  readLostEvents,
  readSentRequests,
  readWaitingEvents,
  readWaitingRefetches,
  readWalks,
  readWorks,
} from "../mirror/opsLists.ts";
import type { ListQuery } from "../mirror/opsLists.ts";
import type { Clock } from "../runtime/clock.ts";
import type { Logger } from "../runtime/logger.ts";
import { makeCollector } from "./collector.ts";
import { LIST_LINES } from "./listPage.ts";
import type { ListContext } from "./listPage.ts";
import {
  renderLostEvents,
  renderRefetches,
  renderSentRequests,
  renderSlowEvents,
  renderWaiting,
  renderWalks,
  renderWorksList,
} from "./listPages.ts";
import { makeLiveFeed } from "./liveFeed.ts";
import { viewerOf } from "./login.ts";
import { renderOverview } from "./overviewPage.ts";
import { readText } from "./requestText.ts";
import { parseTailFilter } from "./tailLine.ts";

/** The overview, its live feed, and the lists behind its figures. */
export function makeOverviewRoutes(deps: {
  pool: Pool;
  clock: Clock;
  logger: Logger;
  webhookSources: ReadonlySet<string> | null;
  listRate: RateRule;
  signal: AbortSignal;
}): Router {
  const { pool, clock } = deps;
  const collector = makeCollector(deps);
  const feed = makeLiveFeed({ ...deps, collector });
  const router = Router();
  router.get("/", async (request, response) => {
    const filter = parseTailFilter(request.query);
    const collected = await collector.read();
    const lines = await feed.begin(filter);
    const asOf = formatInstant(clock.now(), 0);
    const viewer = viewerOf(response);
    response.type("html").send(renderOverview({ collected, lines, filter, asOf, viewer }));
  });
  router.get("/live", feed.stream);

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
  addList("/works", readWorks, renderWorksList);
  return router;
}

/** Null when the list is to be of every source. */
function readSource({ query }: Request): string | null {
  const text = readText(query["source"]);
  return text === "" ? null : text;
}
