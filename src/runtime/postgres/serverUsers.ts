import { randomUUID } from "node:crypto";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { identifyProcess, isIdentityAlive } from "./processIdentity.ts";

/** Notes in `folder` that this process uses the server; the returned function removes the note. */
export async function enterAsUser(folder: string): Promise<() => Promise<void>> {
  await mkdir(folder, { recursive: true });
  const file = path.join(folder, randomUUID());
  await writeFile(file, await identifyProcess());
  return () => rm(file, { force: true });
}

/** True while a running process is noted in `folder`. Notes of processes that were killed are removed. */
export async function hasUsers(folder: string): Promise<boolean> {
  const names = await readdir(folder).catch(() => []);
  let found = false;
  for (const name of names) {
    const file = path.join(folder, name);
    const identity = await readFile(file, "utf8").catch(() => "");
    if (await isIdentityAlive(identity)) found = true;
    else await rm(file, { force: true });
  }
  return found;
}
