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
  /** Disjoint. */
  readonly pages: readonly ReadonlySet<string>[];
}

export const NOTHING_SEEN: SeenKeys = { count: 0, complete: true, pages: [] };

/** `seen` plus `keys`, and the indexes of the new keys; of a repeated key only the first. */
export function addSeen(
  seen: SeenKeys,
  keys: readonly string[],
): { readonly seen: SeenKeys; readonly fresh: readonly number[] } {
  const added = new Set<string>();
  const fresh: number[] = [];
  for (const [index, key] of keys.entries()) {
    if (added.has(key) || seen.pages.some((page) => page.has(key))) continue;
    added.add(key);
    fresh.push(index);
  }
  if (fresh.length === 0) return { seen, fresh };
  const count = seen.count + added.size;
  if (count > SEEN_KEYS_MAX) return { seen: { ...seen, complete: false }, fresh };
  return { seen: { count, complete: seen.complete, pages: [...seen.pages, added] }, fresh };
}
