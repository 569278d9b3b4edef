import { Router } from "express";
import type { Request, Response } from "express";
import type { Configuration, IDToken } from "openid-client";
import { z } from "zod";
import type { SignOn } from "../../runtime/config/signOnVariables.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";
import { readCookie } from "../html/requests.ts";
import type { Person } from "./access.ts";

type Settings = NonNullable<SignOn["openIdConnect"]>;

export interface OpenIdConnectDeps {
  readonly settings: Settings;
  readonly logger: Logger;
  /** Admits or refuses the person, and answers. */
  readonly admit: (request: Request, response: Response, person: Person, next: string) => Promise<void>;
  /** Answers that the login failed. */
  readonly fail: (response: Response) => void;
  readonly readTarget: (value: unknown) => string;
}

/** The prefix makes browsers refuse a cookie that another host plants, so that nobody is logged in as somebody else. */
const cookieName = (secure: boolean) => (secure ? "__Host-order_mirror_login" : "order_mirror_login");
const LOGIN_MS = 600_000;
const TIMEOUT_SECONDS = 5;
/** Only few mirrors need it, and loading it takes time. */
const loadLibrary = () => import("openid-client");
const CALLBACK = "/ops/login/oidc/done";

/** Kept in the browser during the visit to the issuer: the answer must belong to this request. */
const startedSchema = z.strictObject({
  state: z.string(),
  nonce: z.string(),
  verifier: z.string(),
  next: z.string(),
});

/**
 * `/login/oidc` redirects to the issuer; `/login/oidc/done` is the redirect address. Code flow with PKCE, state and
 * nonce. The issuer's metadata is loaded at the first login, and again after a failure.
 */
export function makeOpenIdConnectRoutes(deps: OpenIdConnectDeps): Router {
  const { settings, logger, admit, fail, readTarget } = deps;
  const { publicUrl, scope } = settings;
  const base = publicUrl.replace(/\/+$/, "");
  const secure = base.startsWith("https:");
  const discover = makeDiscovery(settings);
  const router = Router();

  router.get("/login/oidc", async (request, response) => {
    try {
      const library = await loadLibrary();
      const started = {
        state: library.randomState(),
        nonce: library.randomNonce(),
        verifier: library.randomPKCECodeVerifier(),
        next: readTarget(request.query["next"]),
      };
      const url = library.buildAuthorizationUrl(await discover(), {
        redirect_uri: base + CALLBACK,
        scope,
        state: started.state,
        nonce: started.nonce,
        code_challenge: await library.calculatePKCECodeChallenge(started.verifier),
        code_challenge_method: "S256",
      });
      const value = Buffer.from(JSON.stringify(started)).toString("base64url");
      response.cookie(cookieName(secure), value, { ...cookieOf(secure), maxAge: LOGIN_MS });
      response.redirect(303, url.href);
    } catch (error) {
      tellFailure(response, error);
    }
  });
  router.get("/login/oidc/done", async (request, response) => {
    response.clearCookie(cookieName(secure), cookieOf(secure));
    try {
      const started = readStarted(request, cookieName(secure));
      const person = await exchange(await discover(), {
        settings,
        url: new URL(base + request.originalUrl),
        started,
      });
      await admit(request, response, person, readTarget(started.next));
    } catch (error) {
      tellFailure(response, error);
    }
  });
  return router;

  function tellFailure(response: Response, error: unknown): void {
    logger.warn({ outcome: "openid_connect_failed", err: error }, "ops login refused");
    fail(response);
  }
}

const cookieOf = (secure: boolean) => ({ httpOnly: true, sameSite: "lax", path: "/", secure }) as const;

function makeDiscovery({ issuer, clientId, clientSecret }: Settings): () => Promise<Configuration> {
  let found: Promise<Configuration> | undefined;
  return () => {
    found ??= discover().catch((error: unknown) => {
      found = undefined;
      throw error;
    });
    return found;
  };
  async function discover(): Promise<Configuration> {
    const { allowInsecureRequests, discovery } = await loadLibrary();
    return discovery(new URL(issuer), clientId, clientSecret, undefined, {
      timeout: TIMEOUT_SECONDS,
      // The configuration allows http only for an issuer on this machine.
      ...(issuer.startsWith("http:") && { execute: [allowInsecureRequests] }),
    });
  }
}

function readStarted(request: Request, cookie: string): z.output<typeof startedSchema> {
  return startedSchema.parse(
    JSON.parse(Buffer.from(readCookie(request, cookie), "base64url").toString("utf8")),
  );
}

async function exchange(
  configuration: Configuration,
  { settings, url, started }: { settings: Settings; url: URL; started: z.output<typeof startedSchema> },
): Promise<Person> {
  const { authorizationCodeGrant, fetchUserInfo } = await loadLibrary();
  const tokens = await authorizationCodeGrant(configuration, url, {
    pkceCodeVerifier: started.verifier,
    expectedState: started.state,
    expectedNonce: started.nonce,
    idTokenExpected: true,
  });
  const claims = tokens.claims();
  if (claims === undefined) throw new TypeError("the issuer sent no ID token");
  const { groupsClaim } = settings;
  const hasAll = claims[groupsClaim] !== undefined && claims["email"] !== undefined;
  const canAsk = configuration.serverMetadata().userinfo_endpoint !== undefined;
  // Some issuers return large claims only from this endpoint.
  const more = hasAll || !canAsk ? {} : await fetchUserInfo(configuration, tokens.access_token, claims.sub);
  return describePerson({ ...more, ...claims }, groupsClaim);
}

/**
 * Names the person by the e-mail address if the issuer has verified it; otherwise by the issuer's own identifier.
 * People can choose the other claims, even somebody else's.
 */
function describePerson(claims: IDToken, groupsClaim: string): Person {
  const { sub, email, email_verified: isVerified } = claims;
  const listed = claims[groupsClaim];
  const groups = (Array.isArray(listed) ? listed : [listed]).filter((group) => typeof group === "string");
  return { name: typeof email === "string" && isVerified === true ? email : sub, groups };
}
