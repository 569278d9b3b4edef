import { execFile } from "node:child_process";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { ROOT } from "./program.ts";

const run = promisify(execFile);
export const MODULES = path.join(ROOT, "node_modules");

/**
 * Packs this project as it is published, and installs it in a folder as npm does, but with this project's dependencies, so
 * that nothing is downloaded. Programs in the folder are ES modules, and may also load `others`. Resolves with the tarball.
 */
export async function installPacked(folder: string, others: readonly string[] = []): Promise<string> {
  const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", folder], { cwd: ROOT });
  const [packed] = JSON.parse(stdout) as [{ filename: string }];
  const tarball = path.join(folder, packed.filename);
  const home = path.join(folder, "node_modules", "order-mirror");
  await mkdir(home, { recursive: true });
  await run("tar", ["-xzf", tarball, "-C", home, "--strip-components=1"]);
  await symlink(MODULES, path.join(home, "node_modules"));
  for (const name of others) await symlink(path.join(MODULES, name), path.join(folder, "node_modules", name));
  await writeFile(path.join(folder, "package.json"), JSON.stringify({ type: "module" }));
  return tarball;
}
