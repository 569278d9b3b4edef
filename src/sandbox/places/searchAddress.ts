import type { WireAddress } from "../../wire/api.ts";
import { geocode, searchKey } from "./geocode.ts";
import type { AddressReason, Geocoded } from "./geocode.ts";
import { isStorable } from "../api/requestBody.ts";
import type { SandboxState } from "../world/sandboxState.ts";
import { insertSearch, readSearch } from "./search.sql.ts";

/** The messages of the address check; creation and quote use the same texts. */
export const ADDRESS_MESSAGES: Readonly<Record<AddressReason, string>> = {
  address_not_found: "The address cannot be found.",
  address_ambiguous: "The address matches several places; the postcode would tell which.",
  address_low_confidence: "The address could only be found approximately; check street and house number.",
};

/** False for an address that no search can be stored for. Assumed: it is not found. */
export function isSearchable({ street, city, postcode }: WireAddress): boolean {
  return [street, city, postcode].every(isStorable);
}

/**
 * Looks an address up for an organization. A search is charged, and its result is stored whatever it is: another
 * spelling of the same address is not charged again (spec, "POST /v1/orders"). Assumed: both modes share it.
 */
export async function searchAddress(
  state: SandboxState,
  organizationId: string,
  address: WireAddress,
): Promise<Geocoded> {
  if (!isSearchable(address)) return { valid: false, reason: "address_not_found" };
  const key = searchKey(address);
  const known = await readSearch(state.pool, organizationId, key);
  if (known) return known;
  const result = geocode(address);
  await insertSearch(state.pool, { organizationId, key, result, searchedAt: state.clock.now() });
  return result;
}
