import { execFile } from "node:child_process";
import path from "node:path";
import { promisify } from "node:util";

export const ROOT = path.resolve(import.meta.dirname, "../..");

/** Builds `dist/`, for the sections that measure the program as its users start it. */
export async function buildProgram(): Promise<void> {
  await promisify(execFile)("npm", ["run", "--silent", "build"], { cwd: ROOT });
}
