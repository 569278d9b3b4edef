import type { Pool } from "../../src/mirror/database.ts";
import { makeChangeHub } from "../../src/report/changeHub.ts";
import { makeOrderWait } from "../../src/report/orderWait.ts";
import { makeReportRouter } from "../../src/report/router.ts";
import type { ReportDeps } from "../../src/report/router.ts";
import { systemClock } from "../../src/runtime/clock.ts";
import { silentLogger } from "../../src/runtime/logger.ts";

/** The read API over `pool`, open to this machine unless `apiTokens` are given. */
export function makeTestReport(deps: { pool: Pool } & Partial<ReportDeps>) {
  const common = { clock: systemClock, logger: silentLogger };
  const hub = makeChangeHub({ pool: deps.pool, ...common });
  const orderWait = makeOrderWait({ pool: deps.pool, ...common });
  const sources = [{ sourceId: "live" }, { sourceId: "test" }];
  return makeReportRouter({
    exportPool: deps.pool,
    hub,
    orderWait,
    sources,
    apiTokens: [],
    ...common,
    ...deps,
  });
}
