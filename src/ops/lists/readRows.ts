import { queryInstants } from "../../database/columns.ts";
import { pickSort, writeKeyset } from "../../database/keyset.sql.ts";
import type { Sorts } from "../../database/keyset.sql.ts";
import type { List, Listed } from "./list.ts";

/**
 * How a list reads its rows. The statement's values are the source, the limit, the position, and the chosen words of
 * `filters`; null stands for any.
 */
export function readRows<Row extends Listed>(
  sorts: Sorts,
  filters: readonly string[],
  write: (keyset: ReturnType<typeof writeKeyset>) => string,
): Pick<List<Row>, "sorts" | "read"> {
  return {
    sorts: Object.keys(sorts),
    read: (pool, { sourceId, limit, after, sort, chosen }) => {
      const text = write(writeKeyset(pickSort(sorts, sort), 3));
      const words = filters.map((name) => chosen[name] ?? null);
      return queryInstants<Row>(pool, text, [sourceId, limit, after, ...words]);
    },
  };
}
