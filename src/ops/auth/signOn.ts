import { Router } from "express";
import type { Request, RequestHandler, Response } from "express";
import type { SignOn } from "../../runtime/config/signOnVariables.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";
import { findAccess } from "./access.ts";
import type { Person } from "./access.ts";
import { makeOpenIdConnectRoutes } from "./openIdConnect.ts";
import { makeProxySignOn } from "./proxySignOn.ts";
import type { Sessions } from "./sessions.ts";
import { enter } from "./viewer.ts";

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
    return viewer === undefined ? refuse(request, response, logger) : enter(response, viewer, next);
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
    if (viewer === undefined) return refuse(request, response, logger);
    await sessions.begin(request, response, viewer);
    response.redirect(303, next);
  }
  return makeOpenIdConnectRoutes({ settings, logger, admit, fail, readTarget });
}

function refuse({ socket }: Request, response: Response, logger: Logger): void {
  logger.warn({ outcome: "no_role", remote_ip: socket.remoteAddress ?? "" }, "ops login refused");
  response.status(403).type("text/plain").send(`${NO_ROLE}\n`);
}
