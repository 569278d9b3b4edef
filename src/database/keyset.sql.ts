/** A place in a sorted list: the sort keys of the row before it, as the server writes them as text. */
export type Position = readonly string[];

/** A way to sort. Its keys are the types of expressions; together they are unique and never null. */
export interface Sort {
  readonly keys: Readonly<Record<string, string>>;
  readonly descending: boolean;
}

/** The two directions of the same keys, by their names. */
export function bothWays(
  keys: Sort["keys"],
  [down, up]: readonly [down: string, up: string] = ["newest", "oldest"],
): Sorts {
  return { [down]: { keys, descending: true }, [up]: { keys, descending: false } };
}

/** Ways to sort by their names, the standard one first. */
export type Sorts = Readonly<Record<string, Sort>>;

/** The sort of that name; the standard one if there is none. */
export function pickSort(sorts: Sorts, name: string): Sort {
  const picked = sorts[name] ?? Object.values(sorts)[0];
  if (picked === undefined) throw new TypeError("a list has a sort");
  return picked;
}

/**
 * The SQL of a page of a sorted list, which costs the same however far down it is. `parameter` is the place of the
 * position among the statement's values, null for the first page. A value that is not of its key's type makes the
 * statement fail with a data exception.
 */
export function writeKeyset({ keys, descending }: Sort, parameter: number) {
  const places = Object.values(keys).map((type, index) => `(($${parameter}::text[])[${index + 1}])::${type}`);
  const expressions = Object.keys(keys);
  const isBehind = `(${expressions.join(", ")}) ${descending ? "<" : ">"} (${places.join(", ")})`;
  return {
    /** The row's own position, for its column list. */
    position: `array[${expressions.map((expression) => `(${expression})::text`).join(", ")}]`,
    condition: `($${parameter}::text[] is null or ${isBehind})`,
    order: `order by ${expressions.map((expression) => expression + (descending ? " desc" : "")).join(", ")}`,
  };
}
