import type { IncomingMessage } from "node:http";

/**
 * False for what another site's page made a browser send. Browsers send one of the two headers with every such request; a
 * program that sends neither is no browser.
 */
export function isSameOrigin({ headers }: IncomingMessage): boolean {
  const site = headers["sec-fetch-site"];
  if (site !== undefined) return site === "same-origin";
  const { origin, host } = headers;
  if (origin === undefined) return true;
  return URL.canParse(origin) && new URL(origin).host === host;
}
