import { randomUUID } from "node:crypto";
import type pg from "pg";

export type Reader = Awaited<ReturnType<typeof makeReader>>;

/** A role that was admitted to the given sources, or to every source. */
export async function makeReader(owner: Pick<pg.Pool, "query">, ...sources: string[]) {
  const role = `reader_${randomUUID().replaceAll("-", "")}`;
  await owner.query(`create role ${role}`);
  if (sources.length === 0) await owner.query("call mirror.admit_reader($1)", [role]);
  for (const source of sources) await owner.query("call mirror.admit_reader($1, $2)", [role, source]);
  return {
    /** Name of a role without a password, for `set role`. */
    role,
    async drop() {
      await owner.query("call mirror.dismiss_reader($1)", [role]);
      await owner.query(`drop role ${role}`);
    },
  };
}
