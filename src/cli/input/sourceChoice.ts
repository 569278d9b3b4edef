import { ConfigurationError } from "../../domain/errors.ts";
import type { Pool } from "../../database/database.ts";
import { readSourceIds } from "../../sources/sources.sql.ts";

/** The source for a command: the named one, or the only one. Throws ConfigurationError otherwise. */
export async function chooseSource(pool: Pool, named: string | undefined): Promise<string> {
  const known = await readSourceIds(pool);
  const names = known.join(", ") || "none; start a poller once";
  if (named !== undefined) {
    if (known.includes(named)) return named;
    throw new ConfigurationError(`There is no source ${named}.`, { fix: `Known sources: ${names}.` });
  }
  const [only, ...others] = known;
  if (only !== undefined && others.length === 0) return only;
  throw new ConfigurationError("The command applies to one source, and there are several.", {
    fix: `Choose one with --source. Known sources: ${names}.`,
  });
}
