/** The address of an order's page, or of an action on it. */
export function orderAddress(
  { sourceId, reference }: { sourceId: string; reference: string },
  action: "" | "/refetch" = "",
): string {
  const source = `/ops/orders/${encodeURIComponent(sourceId)}`;
  // Browsers remove such a segment from a path, even if it is encoded.
  return reference === "." || reference === ".."
    ? `${source}${action}?reference=${reference}`
    : `${source}/${encodeURIComponent(reference)}${action}`;
}

export function eventAddress(sourceId: string, eventId: string): string {
  return `/ops/events/${encodeURIComponent(sourceId)}/${encodeURIComponent(eventId)}`;
}

export function sourceAddress(sourceId: string): string {
  return `/ops/sources/${encodeURIComponent(sourceId)}`;
}

/** The source of a list, as a query string; empty for all. */
export function sourceQuery(sourceId: string): string {
  return `?source=${encodeURIComponent(sourceId)}`;
}
