import type { IncomingMessage } from "node:http";
import { Router } from "express";
import type { Pool } from "../database/database.ts";
import { assertMigrated } from "../database/migrations.ts";
import type { HealthReader } from "./health.ts";
import { probeWrite, type FirstWrite } from "./readHealth.sql.ts";
import { isLocalRequest } from "../process/loopback.ts";
import { withTimeout } from "../process/abort.ts";
import { systemClock, type Clock } from "../process/clock.ts";
import { shareReading } from "../process/shareReading.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import { digestSecret, matchesDigest } from "../process/secretDigest.ts";
import type { Metrics } from "../process/telemetry/metrics.ts";

export interface HealthRouterDeps {
  readonly pool: Pool;
  readonly databaseUrl: string;
  /** Table that this process must be able to write; events, where absent. */
  readonly firstWrite?: FirstWrite;
  /** Aborted when this process begins to shut down. */
  readonly signal: AbortSignal;
  readonly logger: Logger;
  readonly clock?: Clock;
  /** Shown by `?verbose` and never counted: which conditions of the mirror hold. */
  readonly health?: HealthReader;
}

const PROBE_TIMEOUT_MS = 2_000;
/** However many ask, each thing is checked at most once in this time. */
const HOLD_MS = 1_000;

/**
 * `GET /livez`: this process answers; nothing else is asked, as a restart would not mend anything else.
 *
 * `GET /readyz`: this process can do its work: Postgres commits and lets it write, the schema is the newest, and no
 * shutdown has begun. 200 or 503; the status is the contract. `?verbose` adds the checks by name and outcome, and the
 * conditions that hold by name and severity: nothing that a stranger could use.
 */
export function makeHealthRouter(deps: HealthRouterDeps): Router {
  const { signal, logger, clock = systemClock, health } = deps;
  const checks = Object.entries(makeProbes(deps)).map(([name, works]) => {
    const check = shareReading(() => works().catch(() => false), { clock, holdMs: HOLD_MS });
    return async () => ({ name, ok: (await withTimeout(check(), PROBE_TIMEOUT_MS)) === true });
  });
  let wasReady = true;

  const router = Router();
  router.get("/livez", (_request, response) => {
    response.set("Cache-Control", "no-store").json({ live: true });
  });
  router.get("/readyz", async (request, response) => {
    const accepting = { name: "accepting", ok: !signal.aborted };
    const outcomes = [accepting, ...(await Promise.all(checks.map((check) => check())))];
    const ready = outcomes.every(({ ok }) => ok);
    if (ready !== wasReady) {
      const failed = outcomes.filter(({ ok }) => !ok).map(({ name }) => name);
      logger.warn({ ready, failed }, ready ? "ready again" : "not ready");
      wasReady = ready;
    }
    const verbose = /[?&]verbose\b/.test(request.url);
    const details = verbose ? { checks: outcomes, ...(await listConditions(health)) } : {};
    response
      .status(ready ? 200 : 503)
      .set("Cache-Control", "no-store")
      .json({ ready, ...details });
  });
  return router;
}

/** Nothing where they cannot be read: then a check says so. */
async function listConditions(health: HealthReader | undefined): Promise<{ conditions?: unknown }> {
  try {
    const read = await health?.read();
    if (read === undefined) return {};
    const severities = new Map(read.holding.map(({ condition }) => [condition.name, condition.severity]));
    return { conditions: [...severities].map(([name, severity]) => ({ name, severity })) };
  } catch {
    return {};
  }
}

/** Whether each thing works, by its name. */
function makeProbes({ pool, databaseUrl, firstWrite }: HealthRouterDeps) {
  let isCurrent = false;
  return {
    postgres: async () => {
      const { readOnly, mayInsert } = await probeWrite(pool, firstWrite);
      return !readOnly && mayInsert;
    },
    // Migrations only go forward, so once seen to be current it stays so for this version of the program.
    migrations: async () => {
      if (!isCurrent) await assertMigrated(databaseUrl);
      return (isCurrent = true);
    },
  };
}

export interface MetricsRouterDeps {
  readonly metrics: Pick<Metrics, "render">;
  /** Must be presented as a bearer token; null: nobody is answered but, with `localTrust`, this machine. */
  readonly metricsToken: string | null;
  readonly localTrust: boolean;
  readonly logger: Logger;
}

const BEARER = /^Bearer +(\S+)$/i;

/** `GET /metrics` in Prometheus' text format, for programs with METRICS_TOKEN. */
export function makeMetricsRouter({ metrics, metricsToken, localTrust, logger }: MetricsRouterDeps): Router {
  const digest = metricsToken === null ? null : digestSecret(metricsToken);
  const router = Router();
  router.get("/metrics", async (request, response) => {
    response.set("Cache-Control", "no-store");
    const trusted = localTrust && isLocalRequest(request);
    if (!trusted && !presents(request, digest)) {
      response.status(401).set("WWW-Authenticate", "Bearer").type("text").send("METRICS_TOKEN is needed.\n");
      return;
    }
    try {
      const text = await metrics.render();
      response.set("Content-Type", "text/plain; version=0.0.4; charset=utf-8").send(text);
    } catch (error) {
      logger.error({ err: error }, "the metrics could not be collected");
      response.status(500).type("text").send("The metrics could not be collected.\n");
    }
  });
  return router;
}

function presents({ headers }: IncomingMessage, digest: Buffer | null): boolean {
  const token = BEARER.exec(headers.authorization ?? "")?.[1];
  return token !== undefined && digest !== null && matchesDigest(token, digest);
}
