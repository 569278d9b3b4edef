import type { RequestHandler } from "express";
import { readCertificate, readChain } from "../certificates/certificates.sql.ts";
import type { Pool } from "../database/database.ts";
import { addSeconds, formatInstant, tryParseInstant } from "../domain/order/instant.ts";
import type { Authenticate } from "../http/authenticate.ts";
import { RefusedRequestError } from "../wire/refusal.ts";
import { readOrUnavailable } from "../http/respond.ts";

interface RouteDeps {
  readonly pool: Pool;
  readonly authenticate: Authenticate;
}

const DAY_SECONDS = 86_400;

/** GET /v1/certificates: all signed statements of the source, one per line, as `certificate check` reads them. */
export function makeListCertificates({ pool, authenticate }: RouteDeps): RequestHandler {
  return async (request, response) => {
    const envelopes = await readOrUnavailable(readChain(pool, authenticate(request)));
    response.type("application/x-ndjson").send(envelopes.map((envelope) => `${envelope}\n`).join(""));
  };
}

/**
 * GET /v1/certificates/2026-11-21: the last certificate of that day of UTC. 410 once a later change has disproved it,
 * even before its revocation is signed.
 */
export function makeGetCertificate({ pool, authenticate }: RouteDeps): RequestHandler {
  return async (request, response) => {
    const sourceId = authenticate(request);
    const day = String(request.params["day"]);
    const since = tryParseInstant(`${day}T00:00:00Z`);
    const found =
      since === undefined
        ? undefined
        : await readOrUnavailable(
            readCertificate(pool, { sourceId, since, until: addSeconds(since, DAY_SECONDS) }),
          );
    if (found === undefined) throw new RefusedRequestError(NOT_FOUND);
    if (found.disprovedAt !== null) {
      const message = `A change that it had missed was found at ${formatInstant(BigInt(found.disprovedAt), 0)}. A new certificate follows when the day is proved again.`;
      throw new RefusedRequestError({ status: 410, code: "certificate_disproved", message });
    }
    response.type("application/vnd.dsse.envelope.v1+json").send(`${found.envelope}\n`);
  };
}

const NOT_FOUND = {
  status: 404,
  code: "certificate_not_found",
  message:
    "There is no certificate of this day. Days are certified by themselves once they are over and proved.",
};
