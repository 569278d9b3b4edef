import type { Response } from "express";
import { formatInstant } from "../domain/order/instant.ts";
import type { Pool } from "../database/database.ts";
import { selectFreshness } from "./orderReads.sql.ts";
import type { Freshness } from "./orderReads.sql.ts";
import { readOrUnavailable } from "../http/respond.ts";

/** Polls advance the mark at least every few minutes; if it is older, something is wrong. */
const STALE_AFTER_SECONDS = 600;

/**
 * Reads how far the answer can be trusted, and sets the headers: see writeFreshness.
 *
 * Call it before reading the orders, never after: the claim must not be more recent than the orders.
 */
export async function stampFreshness(
  response: Response,
  { pool, sourceId }: { pool: Pool; sourceId: string },
): Promise<void> {
  writeFreshness(response, await readOrUnavailable(selectFreshness(pool, sourceId)));
}

/**
 * Sets `X-Safe-Through` if it is known how far the answer can be trusted, `X-Safe-Through-Exceptions` with the number
 * of excluded orders, and `X-Stale-Seconds` if it is far back: webhooks may have brought more recent changes, but lost
 * ones are missing.
 */
export function writeFreshness(response: Response, freshness: Freshness | undefined): void {
  if (freshness === undefined) return;
  response.set("X-Safe-Through", formatInstant(freshness.safeThrough));
  response.set("X-Safe-Through-Exceptions", String(freshness.exceptions));
  const ageSeconds = Math.floor(freshness.ageSeconds);
  if (ageSeconds >= STALE_AFTER_SECONDS) response.set("X-Stale-Seconds", String(ageSeconds));
}
