import { execFile, execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

export type SmallDisk = NonNullable<ReturnType<typeof mountSmallDisk>>;

/** Mounts a file system of its own that a test can fill; undefined, with a notice, when mounting is not allowed. */
export function mountSmallDisk(megabytes: number) {
  const folder = mkdtempSync(path.join(tmpdir(), "order-mirror-disk-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs", folder], { stdio: "ignore" });
  } catch {
    rmSync(folder, { recursive: true });
    process.stderr.write("NOT RUN: the tests of a full disk. Only root may mount a small one.\n");
    return undefined;
  }
  return {
    folder,
    /** Writes until nothing more fits. */
    fill: () => run("sh", ["-c", 'cat /dev/zero >"$0/ballast"', folder]).catch(() => undefined),
    /** Removes what `fill` wrote. */
    empty: () => rmSync(path.join(folder, "ballast"), { force: true }),
    async unmount() {
      execFileSync("umount", [folder]);
      await rm(folder, { recursive: true });
    },
  };
}
