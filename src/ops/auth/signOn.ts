import { Router } from "express";
import type { Request, RequestHandler, Response } from "express";
import type { SignOn } from "../../runtime/config/signOnVariables.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";
import { findAccess } from "./access.ts";
import type { Person } from "./access.ts";
import { makeOpenIdConnectRoutes } from "./openIdConnect.ts";
import type { Sessions } from "./sessions.ts";
import { refuse } from "../html/requests.ts";
import { enter } from "./viewer.ts";
import type { IncomingMessage } from "node:http";
import { makeAddressCheck } from "../../runtime/config/signOnVariables.ts";

interface SignOnDeps {
  readonly signOn: SignOn;
  readonly logger: Logger;
}

const NO_ROLE = "You are signed on, but neither you nor one of your groups has a role here.";

/**
 * Admits a person named by the proxy, with the granted role (403: none was granted); leaves other requests to
 * `otherwise`.
 */
export function makeProxyEntrance({ signOn, logger }: SignOnDeps, otherwise: RequestHandler): RequestHandler {
  if (signOn.proxy === null) return otherwise;
  const findPerson = makeProxySignOn(signOn.proxy);
  return (request, response, next) => {
    const person = findPerson(request);
    if (person === undefined) return otherwise(request, response, next);
    const viewer = findAccess(signOn, person);
    return viewer === undefined
      ? refuseWithoutRole(request, response, logger)
      : enter(response, viewer, next);
  };
}

/** The login with OpenID Connect, if configured: starts a session with the granted role (403: none was granted). */
export function makeSignOnRoutes(
  deps: SignOnDeps & {
    readonly sessions: Sessions;
    readonly readTarget: (value: unknown) => string;
    readonly fail: (response: Response) => void;
  },
): Router {
  const { signOn, logger, sessions, readTarget, fail } = deps;
  const { openIdConnect: settings } = signOn;
  if (settings === null) return Router();

  async function admit(request: Request, response: Response, person: Person, next: string): Promise<void> {
    const viewer = findAccess(signOn, person);
    if (viewer === undefined) return refuseWithoutRole(request, response, logger);
    await sessions.begin(request, response, viewer);
    response.redirect(303, next);
  }
  return makeOpenIdConnectRoutes({ settings, logger, admit, fail, readTarget });
}

function refuseWithoutRole({ socket }: Request, response: Response, logger: Logger): void {
  logger.warn({ outcome: "no_role", remote_ip: socket.remoteAddress ?? "" }, "ops login refused");
  refuse(response, 403, NO_ROLE);
}

const NAME_LENGTH_MAX = 255;
/** Several headers of one name may arrive joined by commas. */
const NAME = /^[^\p{Cc},]+$/u;

/**
 * The person named in the proxy's headers; undefined if the request does not come from the proxy or names nobody. A
 * repeated header names nobody: one of the two could be the client's.
 */
function makeProxySignOn({ addresses, userHeader, groupsHeader }: NonNullable<SignOn["proxy"]>) {
  const isProxy = makeAddressCheck(addresses);
  return ({ socket, rawHeaders }: IncomingMessage): Person | undefined => {
    if (!isProxy(socket.remoteAddress)) return undefined;
    const [name = "", ...otherNames] = valuesOf(rawHeaders, userHeader);
    const [list = "", ...otherLists] = valuesOf(rawHeaders, groupsHeader);
    if (otherNames.length > 0 || otherLists.length > 0) return undefined;
    if (name.length > NAME_LENGTH_MAX || !NAME.test(name)) return undefined;
    const groups = list
      .split(",")
      .map((group) => group.trim())
      .filter((group) => group !== "");
    return { name, groups };
  };
}

/** Every value of a header, as UTF-8. */
function valuesOf(rawHeaders: readonly string[], wanted: string): string[] {
  return rawHeaders.flatMap((name, place) =>
    place % 2 === 0 && name.toLowerCase() === wanted
      ? [
          Buffer.from(rawHeaders[place + 1] ?? "", "latin1")
            .toString("utf8")
            .trim(),
        ]
      : [],
  );
}
