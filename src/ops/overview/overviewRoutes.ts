import { Router } from "express";
import { readLastDecisions } from "../../changes/changeTail.sql.ts";
import { shareReading } from "../../runtime/lifecycle/shareReading.ts";
import { makeOverviewReader } from "./overview.sql.ts";
import type { OverviewReaderDeps } from "./overview.sql.ts";
import { ACTION_LIST } from "../lists/actionList.sql.ts";
import { BREACHES, GAPS, WALKS } from "../lists/coverageLists.sql.ts";
import { CALLS, LOST, REFETCHES, REQUESTS, SLOW, TASKS, WAITING } from "../lists/opsLists.sql.ts";
import { serveList } from "../lists/serveList.ts";
import { sendPage } from "../html/requests.ts";
import { viewerOf } from "../auth/viewer.ts";
import { renderOverview, TAIL_DECISIONS } from "./overviewPage.ts";
import { fitsTail, parseTailFilter, renderTailLine } from "./tailLine.ts";

const LINES_SHOWN = 40;
const RECENT_HELD_MS = 500;

const LISTS = {
  "/lost": LOST,
  "/slow": SLOW,
  "/waiting": WAITING,
  "/refetches": REFETCHES,
  "/requests": REQUESTS,
  "/calls": CALLS,
  "/walks": WALKS,
  "/gaps": GAPS,
  "/breaches": BREACHES,
  "/tasks": TASKS,
  "/actions": ACTION_LIST,
};

/** The overview and the lists behind its figures. */
export function makeOverviewRoutes(deps: OverviewReaderDeps): Router {
  const { pool, clock } = deps;
  const readOverview = makeOverviewReader(deps);
  const readRecent = shareReading(
    () => readLastDecisions(pool, { sourceId: null, reference: null, limit: TAIL_DECISIONS }),
    { clock, holdMs: RECENT_HELD_MS },
  );
  const router = Router();
  router.get("/", async (request, response) => {
    const filter = parseTailFilter(request.query);
    const overview = await readOverview();
    const fitting = (await readRecent()).filter((row) => fitsTail(filter, row));
    const lines = fitting.toReversed().slice(0, LINES_SHOWN).map(renderTailLine);
    sendPage(response, renderOverview({ overview, lines, filter, viewer: viewerOf(response) }));
  });
  for (const [path, list] of Object.entries(LISTS)) router.get(path, serveList(pool, `/ops${path}`, list));
  return router;
}
