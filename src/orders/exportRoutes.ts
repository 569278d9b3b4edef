import type { IncomingMessage, ServerResponse } from "node:http";
import type { Pool } from "../database/database.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import { formatInstant } from "../domain/order/instant.ts";
import { callerOf, type Authenticate } from "../http/authenticate.ts";
import { resolveFilter, parseOrderFilter } from "./orderQuery.ts";
import { exportOrders, type ExportFormat } from "./exportOrders.ts";
import { awaitComplete, completeSchema, stampFreshness } from "./freshness.ts";
import type { OrderWait } from "./orderWait.ts";
import { readTarget } from "../wire/endpoints.ts";
import { parseParameters } from "../wire/listParameters.ts";
import { RefusedRequestError } from "../wire/refusal.ts";
import { readOrUnavailable, setHeaders, untilClosed, type Route } from "../http/respond.ts";

/** Fewer than there are connections, so that exports that one token does not read leave room for others. */
const EXPORTS_PER_TOKEN_MAX = 2;
const BUSY_RETRY_SECONDS = 5;
/** A client that accepts nothing for this long is disconnected, and its database connection released. */
const STALLED_MS = 60_000;

const CONTENT_TYPES: Readonly<Record<ExportFormat, string>> = {
  csv: "text/csv; charset=utf-8; header=present",
  ndjson: "application/x-ndjson; charset=utf-8",
};

export interface ExportRouteDeps {
  /** For queries before the export. */
  readonly pool: Pool;
  /** Small and separate, so that exports do not delay reads: each occupies a connection while it lasts. */
  readonly exportPool: Pool;
  readonly authenticate: Authenticate;
  readonly orderWait: OrderWait;
  /** How many exports each token has under way, of all formats. */
  readonly exporting: Map<string, number>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * GET /v1/orders.csv and /v1/orders.ndjson: all orders of a filter, with the parameters of the list
 * except those for pages. With `complete` they are answered only if they are complete, otherwise 412 not_complete.
 *
 * An export that fails midway ends without the terminator of the transfer, so that a client never mistakes a part for
 * the whole.
 */
export function makeExportOrders(format: ExportFormat, deps: ExportRouteDeps): Route {
  const { pool, exportPool, authenticate, orderWait, exporting, clock, logger } = deps;
  return async (request, response) => {
    const sourceId = authenticate(request);
    const parameters = readTarget(request.url).query;
    const asked = parseOrderFilter(parameters);
    const contract = parseParameters(completeSchema, parameters);
    await awaitComplete({ orderWait, sourceId, response }, contract);
    if (response.destroyed) return;
    await stampFreshness(response, { pool, sourceId, complete: contract.complete });
    const filter = await resolveFilter(pool, { sourceId, asked });
    const endTurn = beginTurn(exporting, callerOf(request));
    try {
      await send(request, response, { sourceId, filter });
    } finally {
      endTurn();
    }
  };

  async function send(request: IncomingMessage, response: ServerResponse, asked: Asked): Promise<void> {
    const { sourceId, filter } = asked;
    const day = formatInstant(clock.now(), 0).slice(0, 10);
    setHeaders(response, {
      "Content-Type": CONTENT_TYPES[format],
      "Content-Disposition": `attachment; filename="orders-${sourceId}-${day}.${format}"`,
    });
    if (request.method === "HEAD") {
      response.end();
      return;
    }
    const signal = watchClient(response);
    const export_ = exportOrders({ pool: exportPool, format, filter, out: response, signal });
    try {
      await readOrUnavailable(export_);
      response.end();
    } catch (error) {
      if (!response.headersSent && !signal.aborted) {
        response.removeHeader("Content-Disposition");
        throw error;
      }
      if (!signal.aborted) logger.error({ err: error, source: sourceId, format }, "an export broke off");
      response.destroy();
    }
  }
}

interface Asked {
  readonly sourceId: string;
  readonly filter: Awaited<ReturnType<typeof resolveFilter>>;
}

/** Counts an export of this caller until the returned function is called. Throws 429 too_many_exports. */
function beginTurn(exporting: Map<string, number>, caller: string): () => void {
  const count = exporting.get(caller) ?? 0;
  // Without tokens, all are programs of this machine.
  if (caller !== "" && count >= EXPORTS_PER_TOKEN_MAX) {
    const headers = { "Retry-After": String(BUSY_RETRY_SECONDS) };
    const message = "This token has too many exports under way.";
    throw new RefusedRequestError({ status: 429, code: "too_many_exports", message, headers });
  }
  exporting.set(caller, count + 1);
  return () => {
    const left = (exporting.get(caller) ?? 1) - 1;
    if (left === 0) exporting.delete(caller);
    else exporting.set(caller, left);
  };
}

/** Aborted when the client is gone, or accepts nothing for too long. */
function watchClient(response: ServerResponse): AbortSignal {
  response.setTimeout(STALLED_MS, () => response.destroy());
  return untilClosed(response);
}
