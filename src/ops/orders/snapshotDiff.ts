/** Field that differs between two snapshots of an order. Values are JSON text; null if the field is absent. */
export interface FieldChange {
  readonly path: string;
  readonly before: string | null;
  readonly after: string | null;
  /** The field may hold personal data, so before and after are null. */
  readonly hidden: boolean;
}

/** More fields than any order has. */
const FIELDS_MAX = 500;
const VALUE_LENGTH_MAX = 120;

/**
 * Fields whose values may be shown because they hold no personal data. It lists allowed fields, not forbidden ones: the
 * spec does not show every field, and an unknown one could be a name.
 */
const SHOWN = [
  /^(reference|externalOrderId|status|livemode|createdAt|updatedAt)$/,
  /^(pickupTime|deliveryTime|realPickupTime|realDeliveryTime)$/,
  /^fleet\.name$/,
  /^branch(\.(id|reference|name))?$/,
  /^zone(\.(code|name))?$/,
  /^schedule\.mode$/,
  /^schedule\.resolved\.(pickupTime|deliveryTime|basis)$/,
];

/** Fields of an event's envelope (spec, "Events"), which surrounds the order in `data`. */
const SHOWN_OF_ENVELOPE = [/^(id|type|created|livemode)$/];

/** The changes from one order object to the next, by path. With `before` null all fields are new. Never throws. */
export function diffSnapshots(before: string | null, after: string): FieldChange[] {
  const left = before === null ? new Map<string, string>() : flatten(before);
  const right = flatten(after);
  const paths = [...new Set([...left.keys(), ...right.keys()])].toSorted();
  return paths
    .filter((path) => left.get(path) !== right.get(path))
    .map((path) => {
      const hidden = !isShown(path);
      const shown = (value: string | undefined) => (hidden || value === undefined ? null : cut(value));
      return { path, before: shown(left.get(path)), after: shown(right.get(path)), hidden };
    });
}

/**
 * A document's fields in their original order, with possible personal data replaced; null if it is not a JSON object.
 */
export function redactDocument(
  text: string,
  kind: "order" | "event",
): { path: string; value: string | null }[] | null {
  const fields = flatten(text);
  if (fields.size === 0) return null;
  return [...fields].map(([path, value]) => {
    const ofOrder = kind === "event" ? path.replace(/^data\./, "") : path;
    const shown =
      kind === "event" && ofOrder === path
        ? SHOWN_OF_ENVELOPE.some((rule) => rule.test(path))
        : isShown(ofOrder);
    return { path, value: shown ? cut(value) : null };
  });
}

function isShown(path: string): boolean {
  return SHOWN.some((rule) => rule.test(path));
}

function cut(value: string): string {
  return value.length <= VALUE_LENGTH_MAX ? value : `${value.slice(0, VALUE_LENGTH_MAX)}…`;
}

/** The leaves of a JSON object by path, such as `schedule.resolved.basis`; empty if it is not an object. */
function flatten(text: string): Map<string, string> {
  const leaves = new Map<string, string>();
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return leaves;
  }
  // An explicit stack: deeply nested input must not overflow the call stack.
  const open: { path: string; value: unknown }[] = [{ path: "", value }];
  for (let next = open.pop(); next !== undefined && leaves.size < FIELDS_MAX; next = open.pop()) {
    const { path } = next;
    const isBranch = typeof next.value === "object" && next.value !== null;
    const members = isBranch ? Object.entries(next.value as object) : [];
    if (path !== "" && members.length === 0) leaves.set(path, JSON.stringify(next.value) ?? "");
    for (const [name, member] of members.toReversed()) {
      open.push({ path: path === "" ? name : `${path}.${name}`, value: member });
    }
  }
  return leaves;
}
