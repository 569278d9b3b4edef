import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

/** The folder `migrations` beside `src` and `dist`. */
const DIRECTORY = fileURLToPath(new URL("../../../migrations", import.meta.url));
const FILE = /^\d{4}_[a-z0-9_]+\.sql$/;
/** A migration that takes away what older programs use says which is the oldest that still runs: `-- oldest program 1.4.0`. */
const OLDEST_PROGRAM = /^-- oldest program (\d+\.\d+\.\d+)$/m;

/** A numbered file of SQL that brings the schema one step further. */
export interface Migration {
  /** The file's name without its extension. */
  readonly name: string;
  readonly sql: string;
  /** SHA-256 of its text, in hex; line ends do not matter. */
  readonly checksum: string;
  /** The oldest version of the program that runs on the schema from then on; null: the one before this as well. */
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
