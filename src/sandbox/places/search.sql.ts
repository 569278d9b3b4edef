import type { Instant } from "../../domain/order/instant.ts";
import type { Connection } from "../world/database.ts";
import type { Geocoded } from "./geocode.ts";

/** The stored result of an earlier search of the organization, if there is one. */
export async function readSearch(
  connection: Connection,
  organizationId: string,
  key: string,
): Promise<Geocoded | undefined> {
  const { rows } = await connection.query<{ result: Geocoded }>(
    `select result from sandbox.searches where organization_id = $1 and search_key = $2`,
    [organizationId, key],
  );
  return rows[0]?.result;
}

/** Stores a result; each row is one search that the organization paid for. */
export async function insertSearch(
  connection: Connection,
  search: { organizationId: string; key: string; result: Geocoded; searchedAt: Instant },
): Promise<void> {
  await connection.query(
    `insert into sandbox.searches (organization_id, search_key, result, searched_at)
     values ($1, $2, $3, $4) on conflict do nothing`,
    [search.organizationId, search.key, JSON.stringify(search.result), search.searchedAt],
  );
}
