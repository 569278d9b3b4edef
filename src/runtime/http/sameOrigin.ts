import type { IncomingMessage } from "node:http";

/** False for a request that another site's page made a browser send: browsers say so in one of two headers. */
export function isSameOrigin({ headers }: IncomingMessage): boolean {
  const site = headers["sec-fetch-site"];
  if (site !== undefined) return site === "same-origin";
  const { origin, host } = headers;
  if (origin === undefined) return true;
  return URL.canParse(origin) && new URL(origin).host === host;
}
