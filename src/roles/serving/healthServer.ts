import express from "express";
import { makeHealthRouter } from "../../ops/health/healthRouter.ts";
import { makeMetricsRouter } from "../../ops/health/metricsRouter.ts";
import { checkAddress } from "../../runtime/http/checkAddress.ts";
import { listen } from "../../runtime/http/httpServer.ts";
import { setAnswerHeaders } from "./answerHeaders.ts";
import { openPool } from "../role.ts";
import type { RoleDeps } from "../role.ts";

const HEALTH_POOL = { purpose: "health", max: 1, statementTimeoutMs: 2_000 };

/** Health and metrics of a process that serves nothing else, where HEALTH_PORT asks for them. */
export async function startHealthServer(deps: RoleDeps): Promise<void> {
  const { config, databaseUrl, clock, logger, shutdown, metrics } = deps;
  if (config.healthPort === null) return;
  const pool = openPool(deps, HEALTH_POOL);
  const app = express();
  app.use(setAnswerHeaders);
  app.use(
    makeHealthRouter({ pool, databaseUrl, firstWrite: "mirror.history", signal: shutdown.signal, logger }),
  );
  app.use(makeMetricsRouter({ ...config, metrics, logger }));
  const { host, healthPort: port, connectionsMax } = config;
  const server = await listen(checkAddress(app, config), {
    host,
    port,
    connectionsMax,
    portVariable: "HEALTH_PORT",
    clock,
    logger,
  });
  shutdown.onShutdown("health server", () => server.close());
  logger.info({ url: server.url }, "health and metrics are served");
}
