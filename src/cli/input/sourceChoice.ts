import { ConfigurationError } from "../../domain/errors.ts";
import type { Pool } from "../../database/database.ts";
import { readSourceIds } from "../../sources/sources.sql.ts";

/** The source that a command is about: the named one, or the only one. Throws ConfigurationError otherwise. */
export async function chooseSource(pool: Pool, named: string | undefined): Promise<string> {
  const known = await readSourceIds(pool);
  const names = known.join(", ") || "none; start a poller once";
  if (named !== undefined) {
    if (known.includes(named)) return named;
    throw new ConfigurationError(`There is no source ${named}.`, { fix: `There are: ${names}.` });
  }
  const [only, ...others] = known;
  if (only !== undefined && others.length === 0) return only;
  throw new ConfigurationError("It is not clear which source is meant.", {
    fix: `Say it with --source. There are: ${names}.`,
  });
}
