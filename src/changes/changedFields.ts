/** More changed fields than any order has; the rest is omitted. @internal */
export const CHANGED_FIELDS_MAX = 1_000;

/**
 * The differences between two JSON values, as JSON Pointers (RFC 6901), in the order of `after`.
 *
 * An added or removed field is listed itself, without its content; so is a list whose length changed. At most
 * CHANGED_FIELDS_MAX. The values must come from `JSON.parse` and be no deeper than JSON_DEPTH_MAX.
 */
export function changedFields(before: unknown, after: unknown): string[] {
  const pointers: string[] = [];
  collect({ before, after, pointer: "" }, pointers);
  return pointers;
}

function collect(
  { before, after, pointer }: { before: unknown; after: unknown; pointer: string },
  pointers: string[],
): void {
  if (before === after || pointers.length >= CHANGED_FIELDS_MAX) return;
  if (!isNested(before) || !isNested(after) || !hasSameShape(before, after)) {
    pointers.push(pointer);
    return;
  }
  const keys = new Set([...Object.keys(after), ...Object.keys(before)]);
  for (const key of keys) {
    const inner = `${pointer}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
    collect({ before: ownValue(before, key), after: ownValue(after, key), pointer: inner }, pointers);
  }
}

type Nested = Readonly<Record<string, unknown>>;

function isNested(value: unknown): value is Nested {
  return typeof value === "object" && value !== null;
}

/** Two objects, or two lists of the same length, can be compared element by element. */
function hasSameShape(left: Nested, right: Nested): boolean {
  const [leftIsList, rightIsList] = [Array.isArray(left), Array.isArray(right)];
  return leftIsList === rightIsList && (!leftIsList || left["length"] === right["length"]);
}

/** Undefined, which is not a JSON value, if the field is absent; never an inherited property. */
function ownValue(nested: Nested, key: string): unknown {
  return Object.hasOwn(nested, key) ? nested[key] : undefined;
}
