import type { PlannedMigration, TableLock, Work } from "../../database/schema/migrationPlan.ts";
import type { TableSize } from "../../database/schema/tableSizes.sql.ts";

/** Bytes per second on a disk and a processor that are also busy with other work. */
const BYTES_PER_SECOND: Readonly<Record<Exclude<Work, "none">, number>> = {
  scan: 200_000_000,
  index: 40_000_000,
  rewrite: 30_000_000,
};
const MEGABYTE = 1_000_000;

/** Lines that say what a migration locks, and for how long at the table's current size. */
export function formatPlan(
  { name, statements, locks, unjudged }: PlannedMigration,
  sizes: ReadonlyMap<string, TableSize>,
): string[] {
  const lines = locks.map((lock) => `  ${formatLock(lock, sizes.get(lock.table))}`);
  const unknown = unjudged.map((statement) => `  not assessed: ${statement} …`);
  const what = lines.length + unknown.length === 0 ? "; it only adds new objects and locks nothing" : "";
  return [`${name}: ${statements} statements${what}`, ...lines, ...unknown];
}

function formatLock({ table, blocks, work }: TableLock, size: TableSize | undefined): string {
  const megabytes = size === undefined ? "" : ` (${Math.ceil(size.bytes / MEGABYTE)} MB)`;
  return `${table}${megabytes}: blocks ${blocks} ${formatTime(work, size)}`;
}

function formatTime(work: Work, size: TableSize | undefined): string {
  if (work === "none") return "for an instant, once running transactions on it have ended";
  const verb = { scan: "reads", index: "indexes", rewrite: "rewrites" }[work];
  if (size === undefined) return `while it ${verb} the table`;
  return `while it ${verb} the table, about ${Math.ceil(size.bytes / BYTES_PER_SECOND[work])} s`;
}
