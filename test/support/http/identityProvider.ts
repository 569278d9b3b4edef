import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Provider } from "oidc-provider";
import type { Configuration, Interaction } from "oidc-provider";

export interface IdentityProvider {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** From now on, everyone who signs in is this person. */
  signIn(claims: { sub: string; email?: string; email_verified?: boolean; groups?: unknown }): void;
  close(): Promise<void>;
}

const CLIENT = { clientId: "order-mirror", clientSecret: "a secret of the client, of the issuer's making" };

/** A real provider of OpenID Connect that signs everybody in, without a form, as the person that `signIn` set. */
export async function startIdentityProvider(redirectUri: string): Promise<IdentityProvider> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  let person: { sub: string } & Record<string, unknown> = { sub: "nobody" };
  const configuration: Configuration = {
    clients: [
      {
        client_id: CLIENT.clientId,
        client_secret: CLIENT.clientSecret,
        redirect_uris: [redirectUri],
        grant_types: ["authorization_code"],
        response_types: ["code"],
      },
    ],
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["groups"] },
    cookies: { keys: ["a key for cookies"] },
    pkce: { required: () => true },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_context: unknown, { uid }: Interaction) => `/interaction/${uid}` },
    findAccount: (_context: unknown, sub: string) => {
      const claims = { ...person };
      return { accountId: sub, claims: () => claims };
    },
  };
  const provider = new Provider(issuer, configuration);
  server.on("request", (request, response) => {
    if (request.url?.startsWith("/interaction/") === true) {
      void (async () => {
        const { prompt, params, session } = await provider.interactionDetails(request, response);
        const accountId = session?.accountId ?? person.sub;
        if (prompt.name === "login") {
          await provider.interactionFinished(request, response, { login: { accountId } });
          return;
        }
        const grant = new provider.Grant({ accountId, clientId: String(params["client_id"]) });
        grant.addOIDCScope(String(params["scope"]));
        const grantId = await grant.save();
        await provider.interactionFinished(request, response, { consent: { grantId } });
      })();
    } else void provider.callback()(request, response);
  });
  return {
    issuer,
    ...CLIENT,
    signIn: (claims) => (person = claims),
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
