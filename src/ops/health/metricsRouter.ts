import { Router } from "express";
import type { IncomingMessage } from "node:http";
import type { Logger } from "../../runtime/telemetry/logger.ts";
import { isLocalRequest } from "../../runtime/http/loopback.ts";
import type { Metrics } from "../../runtime/telemetry/metrics.ts";
import { digestSecret, matchesDigest } from "../../runtime/secretDigest.ts";

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
