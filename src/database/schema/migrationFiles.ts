import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

/** The folder `migrations` next to `src` and `dist`. */
const DIRECTORY = fileURLToPath(new URL("../../../migrations", import.meta.url));
const FILE = /^\d{4}_[a-z0-9_]+\.sql$/;
/** Stands in a migration that removes something that older programs use: `-- oldest program 1.4.0`. */
const OLDEST_PROGRAM = /^-- oldest program (\d+\.\d+\.\d+)$/m;

/** A numbered SQL file that brings the schema one step forward. */
export interface Migration {
  readonly name: string;
  readonly sql: string;
  /** SHA-256 of its text, in hex, independent of line endings. */
  readonly checksum: string;
  /** The oldest program version that runs on the resulting schema; null: the version before this one still runs. */
  readonly oldestProgram: string | null;
}

/** All migrations of this program, oldest first. */
export async function readMigrations(directory = DIRECTORY): Promise<readonly Migration[]> {
  const files = (await readdir(directory)).filter((file) => FILE.test(file)).sort();
  return Promise.all(
    files.map(async (file) => {
      const sql = (await readFile(path.join(directory, file), "utf8")).replaceAll("\r\n", "\n");
      const checksum = createHash("sha256").update(sql).digest("hex");
      const oldestProgram = OLDEST_PROGRAM.exec(sql)?.[1] ?? null;
      return { name: path.basename(file, ".sql"), sql, checksum, oldestProgram };
    }),
  );
}
