import { ConfigurationError } from "../../domain/errors.ts";
import type { Pool } from "../../database/database.ts";
import { readSourceIds } from "../../sources/sources.sql.ts";

/** The source for a command: the named one, or the only one. Throws ConfigurationError otherwise. */
export async function chooseSource(pool: Pool, named: string | undefined): Promise<string> {
  const known = await readSourceIds(pool);
  if (named !== undefined) {
    assertKnown(named, known);
    return named;
  }
  const [only, ...others] = known;
  if (only === undefined) throw noSource();
  if (others.length === 0) return only;
  throw new ConfigurationError("The command applies to one source, and there are several.", {
    fix: `Choose one with --source: ${known.join(", ")}.`,
  });
}

/** Throws ConfigurationError unless the mirror has this source. */
export function assertKnown(sourceId: string, known: readonly string[]): void {
  if (known.includes(sourceId)) return;
  if (known.length === 0) throw noSource();
  throw new ConfigurationError(`There is no source ${sourceId}.`, {
    fix: `Known sources: ${known.join(", ")}.`,
  });
}

/** For a mirror without any source. */
export function noSource(): ConfigurationError {
  return new ConfigurationError("The mirror has no source yet.", {
    fix: "Configure one, and start a poller once.",
  });
}
