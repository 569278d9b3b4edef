import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";

export const ROOT = path.resolve(import.meta.dirname, "../..");

/** Builds `dist/`, for the sections that measure the program as its users start it. */
export async function buildProgram(): Promise<void> {
  await promisify(execFile)("npm", ["run", "--silent", "build"], { cwd: ROOT });
}

/** The Procfile's options for a web process. */
export async function readNodeOptions(): Promise<string[]> {
  const procfile = await readFile(path.join(ROOT, "Procfile"), "utf8");
  const [, options] = /^web: .*node (.+) dist\/cli\/main\.js web$/m.exec(procfile) ?? [];
  if (options === undefined) throw new Error("the Procfile starts no web process");
  return options.split(" ");
}
