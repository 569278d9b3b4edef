import { pipeline } from "node:stream/promises";
import { readCertificate, readChain, readChainEnd } from "../certificates/certificates.sql.ts";
import type { Pool } from "../database/database.ts";
import { addSeconds, formatInstant, tryParseInstant } from "../domain/order/instant.ts";
import type { Authenticate } from "../http/authenticate.ts";
import { describeError } from "../runtime/telemetry/errorFields.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import { RefusedRequestError } from "../wire/refusal.ts";
import { answerKnown, digestText, readOrUnavailable, sendText } from "../http/respond.ts";
import type { Route } from "../http/route.ts";

interface RouteDeps {
  readonly pool: Pool;
  readonly authenticate: Authenticate;
}

interface ListDeps extends RouteDeps {
  readonly logger: Logger;
}

const CERTIFICATE_TYPE = "application/vnd.dsse.envelope.v1+json; charset=utf-8";
const CLIENT_GONE = "ERR_STREAM_PREMATURE_CLOSE";

/**
 * GET /v1/certificates: all signed statements of the source, one per line, as `certificate check` reads them. An answer
 * that fails midway ends without the terminator of the transfer.
 */
export function makeListCertificates({ pool, authenticate, logger }: ListDeps): Route {
  return async (request, response) => {
    const sourceId = authenticate(request);
    const digest = await readOrUnavailable(readChainEnd(pool, sourceId));
    if (answerKnown(response, digest ?? "")) return;
    response.setHeader("Content-Type", "application/x-ndjson");
    if (request.method === "HEAD") return void response.end();
    try {
      await pipeline(writeLines(readChain(pool, sourceId)), response);
    } catch (error) {
      if (describeError(error).code === CLIENT_GONE) return;
      logger.error({ err: error, source: sourceId }, "an answer with certificates broke off");
    }
  };
}

async function* writeLines(envelopes: AsyncIterable<string>): AsyncGenerator<string, void, void> {
  for await (const envelope of envelopes) yield `${envelope}\n`;
}

/**
 * GET /v1/certificates/2026-11-21: the last certificate of that day of UTC. 410 once a later change has disproved it,
 * even before its revocation is signed.
 */
export function makeGetCertificate({ pool, authenticate }: RouteDeps): Route {
  return async (request, response) => {
    const sourceId = authenticate(request);
    const day = String(request.params["day"]);
    const since = tryParseInstant(`${day}T00:00:00Z`);
    // The first and the last day of all instants are not whole.
    const end = tryParseInstant(`${day}T23:59:59Z`);
    const found =
      since === undefined || end === undefined
        ? undefined
        : await readOrUnavailable(readCertificate(pool, { sourceId, since, until: addSeconds(end, 1) }));
    if (found === undefined) throw new RefusedRequestError(NOT_FOUND);
    if (found.disprovedAt !== null) {
      const message = `A change that it had missed was found at ${formatInstant(BigInt(found.disprovedAt), 0)}. A new certificate follows when the day is proved again.`;
      throw new RefusedRequestError({ status: 410, code: "certificate_disproved", message });
    }
    const text = `${found.envelope}\n`;
    if (!answerKnown(response, digestText(text))) sendText(response, CERTIFICATE_TYPE, [text]);
  };
}

const NOT_FOUND = {
  status: 404,
  code: "certificate_not_found",
  message:
    "There is no certificate of this day. Days are certified by themselves once they are over and proved.",
};
