/** Kinds of changes that outgoing webhooks distinguish: first seen here, another status, gone, anything else. */
export const OUTGOING_TYPES = ["order.new", "order.status_changed", "order.gone", "order.changed"] as const;
export type OutgoingType = (typeof OUTGOING_TYPES)[number];

/** The part of an order that a message shows: without personal data, or everything. */
export const OUTGOING_FIELDS = ["redacted", "all"] as const;
export type OutgoingFields = (typeof OUTGOING_FIELDS)[number];
