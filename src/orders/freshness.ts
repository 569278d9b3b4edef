import type { Response } from "express";
import { formatInstant } from "../domain/order/instant.ts";
import type { Pool } from "../database/database.ts";
import { selectFreshness } from "./orderReads.sql.ts";
import type { Freshness } from "./orderReads.sql.ts";
import { readOrUnavailable } from "../http/respond.ts";

/** Polls move the mark every few minutes at most; beyond this something is in their way. */
const STALE_AFTER_SECONDS = 600;

/**
 * Looks up how far the answer can be trusted, and says so: see writeFreshness.
 *
 * To be called before the orders are read, never after: the claim must not be younger than what it is made about.
 */
export async function stampFreshness(
  response: Response,
  { pool, sourceId }: { pool: Pool; sourceId: string },
): Promise<void> {
  writeFreshness(response, await readOrUnavailable(selectFreshness(pool, sourceId)));
}

/**
 * `X-Safe-Through` when it is known how far the answer can be trusted, with the number of orders that this does not
 * speak of in `X-Safe-Through-Exceptions`, and `X-Stale-Seconds` when it lies far back: webhooks may have brought
 * younger changes anyway, but what they lost is missing.
 */
export function writeFreshness(response: Response, freshness: Freshness | undefined): void {
  if (freshness === undefined) return;
  response.set("X-Safe-Through", formatInstant(freshness.safeThrough));
  response.set("X-Safe-Through-Exceptions", String(freshness.exceptions));
  const ageSeconds = Math.floor(freshness.ageSeconds);
  if (ageSeconds >= STALE_AFTER_SECONDS) response.set("X-Stale-Seconds", String(ageSeconds));
}
