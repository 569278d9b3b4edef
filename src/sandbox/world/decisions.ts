/**
 * What the spec does not show, decided one way or another. The first value of each is what docs/assumptions.md assumes;
 * the others are what a provider may do as well. They do not change while a sandbox runs.
 */
export const DECISIONS = {
  /** `{ error: { code, message } }`, `{ code, message }`, or `{ error: code, message }`; `request_id` is at the top level. */
  errorShape: ["nested", "flat", "text"],
  /** A `limit` over 200 is refused, or answered with 200. */
  largeLimit: ["refused", "capped"],
  /** Whether creating and changing an order sends `order.created` and `order.updated`. */
  changeEvents: ["none", "sent"],
  /** Whether all statuses have events, or only those that the spec shows. */
  announced: ["all", "shown"],
  /** Whether orders have the assumed fields `branch`, `zone`, `customer` and `createdAt`. */
  orderFields: ["all", "shown"],
  /** How orders name their branch. */
  branchInOrder: ["full", "reference"],
  /** The list of branches comes whole, or two at a time by `offset`. */
  branchPages: ["one", "several"],
} as const satisfies Readonly<Record<string, readonly [string, string, ...string[]]>>;

export type Decisions = { readonly [Name in keyof typeof DECISIONS]: (typeof DECISIONS)[Name][number] };

/** The assumed decisions with those of `chosen`. */
export function decide(chosen: Partial<Decisions> = {}): Decisions {
  const assumed = Object.entries(DECISIONS).map(([name, [first]]) => [name, first]);
  return { ...(Object.fromEntries(assumed) as Decisions), ...chosen };
}

/** Reads `name=value`; undefined if there is no such decision or value. */
export function readDecision(text: string): Partial<Decisions> | undefined {
  const [name = "", value = ""] = text.split("=");
  const values: readonly string[] = Object.hasOwn(DECISIONS, name) ? DECISIONS[name as keyof Decisions] : [];
  return values.includes(value) ? { [name]: value } : undefined;
}
