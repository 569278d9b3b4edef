/**
 * The maximum number of remembered keys, about ten megabytes; a longer walk works without what depends on them.
 * @internal
 */
export const SEEN_KEYS_MAX = 100_000;

/** An immutable set of keys that grows page by page and shares its earlier parts. */
export interface SeenKeys {
  readonly count: number;
  /** False once there were more than SEEN_KEYS_MAX keys: a key that is missing here may have been seen. */
  readonly complete: boolean;
  /** Disjoint, each larger than the next: a key is looked up in a few of them, however many pages there were. */
  readonly parts: readonly ReadonlySet<string>[];
  /** Keys that were added last. */
  readonly newest: ReadonlySet<string>;
}

export const NOTHING_SEEN: SeenKeys = { count: 0, complete: true, parts: [], newest: new Set() };

/** `seen` plus `keys`, and the indexes of the new keys; of a repeated key only the first. */
export function addSeen(
  seen: SeenKeys,
  keys: readonly string[],
): { readonly seen: SeenKeys; readonly fresh: readonly number[] } {
  const added = new Set<string>();
  const fresh: number[] = [];
  for (const [index, key] of keys.entries()) {
    if (added.has(key) || seen.parts.some((part) => part.has(key))) continue;
    added.add(key);
    fresh.push(index);
  }
  if (fresh.length === 0) return { seen, fresh };
  const count = seen.count + added.size;
  if (count > SEEN_KEYS_MAX) return { seen: { ...seen, complete: false }, fresh };
  return { seen: { count, complete: seen.complete, parts: append(seen.parts, added), newest: added }, fresh };
}

/** Unites the last parts until each is larger than the next. */
function append(parts: readonly ReadonlySet<string>[], part: ReadonlySet<string>): ReadonlySet<string>[] {
  const last = parts.at(-1);
  if (last === undefined || last.size > part.size) return [...parts, part];
  return append(parts.slice(0, -1), new Set([...last, ...part]));
}
