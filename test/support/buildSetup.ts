import { execFile } from "node:child_process";
import path from "node:path";
import { promisify } from "node:util";

/** End-to-end tests run the program as its users do: built. */
export default async function setup(): Promise<void> {
  const root = path.resolve(import.meta.dirname, "../..");
  await promisify(execFile)("npm", ["run", "--silent", "build"], { cwd: root });
}
