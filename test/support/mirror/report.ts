import { makePool } from "../../../src/database/database.ts";
import type { Pool } from "../../../src/database/database.ts";
import { makeChangeHub } from "../../../src/changes/changeHub.ts";
import { makeOrderWait } from "../../../src/orders/orderWait.ts";
import { makeReportRouter } from "../../../src/api/router.ts";
import type { ReportDeps } from "../../../src/api/router.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { makeTestDatabase } from "../servers/database.ts";
import type { TestDatabase } from "../servers/database.ts";
import { serve } from "../http/serve.ts";

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
    localTrust: true,
    ...common,
    ...deps,
  });
}

export interface ReportServer {
  /** Base address without a slash at the end. */
  readonly url: string;
  readonly database: TestDatabase;
  /** The pool of the read API. */
  readonly pool: Pool;
  close(): Promise<void>;
}

/** The read API, open to this machine, over its own database. */
export async function startTestReport(): Promise<ReportServer> {
  const database = await makeTestDatabase();
  const pool = makePool({ url: database.url, purpose: "report", max: 2, statementTimeoutMs: 5_000 });
  const server = await serve(makeTestReport({ pool }));
  return {
    url: server.url,
    database,
    pool,
    async close() {
      await server.close();
      await pool.end();
      await database.drop();
    },
  };
}
