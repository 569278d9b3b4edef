import type { IncomingMessage } from "node:http";

/**
 * False for a request that a page of another site made a browser send. Browsers send one of the two headers with every
 * such request; a program that sends neither is not a browser.
 */
export function isSameOrigin({ headers }: IncomingMessage): boolean {
  const site = headers["sec-fetch-site"];
  if (site !== undefined) return site === "same-origin";
  const { origin, host } = headers;
  if (origin === undefined) return true;
  return URL.canParse(origin) && new URL(origin).host === host;
}
