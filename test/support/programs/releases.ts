import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { findProgram, ROOT } from "./program.ts";

const run = promisify(execFile);
const RELEASES = path.join(ROOT, "test/upgrade/releases");

/** Something to upgrade from: what a release left in a database, and its program. */
export interface Release {
  /** SQL that fills an empty database, as the release left one. */
  readonly dump: string;
  /** Its main file; undefined when its tag is not available. */
  readonly program: string | undefined;
}

/** Versions that have a dump, oldest first. */
export async function listReleases(): Promise<readonly string[]> {
  const files = existsSync(RELEASES) ? await readdir(RELEASES) : [];
  const versions = files.filter((file) => file.endsWith(".sql.gz")).map((file) => file.slice(0, -7));
  return versions.sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
}

/** A release with its program, built from its tag below `home`. */
export async function loadRelease(version: string, home: string): Promise<Release> {
  const dump = await readDump(path.join(RELEASES, `${version}.sql.gz`));
  return { dump, program: await buildTag(`v${version}`, path.join(home, version)) };
}

/** The current build, with its own dump: before the first release, there is nothing else to upgrade from. */
export async function makeBaseline(home: string): Promise<Release> {
  const program = findProgram();
  const file = path.join(home, "baseline.sql.gz");
  await run(path.join(ROOT, ".ci/release-dump"), [file]);
  return { dump: await readDump(file), program };
}

/** A copy of the built program below `home` that has one migration more. */
export async function makeNextRelease(
  home: string,
  migration: { name: string; sql: string },
): Promise<string> {
  findProgram();
  const next = path.join(home, "next");
  await mkdir(next);
  for (const name of ["dist", "assets", "migrations", "config", "package.json"])
    await cp(path.join(ROOT, name), path.join(next, name), { recursive: true });
  await symlink(path.join(ROOT, "node_modules"), path.join(next, "node_modules"));
  await writeFile(path.join(next, "migrations", `${migration.name}.sql`), migration.sql);
  return path.join(next, "dist/cli/main.js");
}

async function readDump(file: string): Promise<string> {
  return (await promisify(gunzip)(await readFile(file))).toString();
}

async function buildTag(tag: string, folder: string): Promise<string | undefined> {
  try {
    await run("git", ["archive", "--format=tar", `--output=${folder}.tar`, tag], { cwd: ROOT });
  } catch (error) {
    process.stderr.write(
      `NOT RUN: ${tag} beside this program; its tag cannot be had (${(error as Error).message.split("\n")[1]}).\n`,
    );
    return undefined;
  }
  await mkdir(folder);
  await run("tar", ["-xf", `${folder}.tar`, "-C", folder]);
  const lockOf = (place: string) => readFile(path.join(place, "package-lock.json"), "utf8");
  if ((await lockOf(folder)) === (await lockOf(ROOT)))
    await symlink(path.join(ROOT, "node_modules"), path.join(folder, "node_modules"));
  else await run("npm", ["ci", "--prefer-offline", "--no-audit", "--no-fund"], { cwd: folder });
  await run(process.execPath, [".ci/strip-types.js"], { cwd: folder });
  return path.join(folder, "dist/cli/main.js");
}
