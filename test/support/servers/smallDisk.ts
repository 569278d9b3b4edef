import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

const MEGABYTE = 1_048_576;

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
    fill: () => fill(folder),
    /** Removes what `fill` wrote. */
    empty: () => void execFileSync("sh", ["-c", 'rm -f "$0"/ballast-*', folder]),
    async unmount() {
      execFileSync("umount", [folder]);
      await rm(folder, { recursive: true });
    },
  };
}

async function fill(folder: string): Promise<void> {
  for (let size = 64 * MEGABYTE; size >= 4_096; size /= 2) {
    for (let place = 0; ; place += 1) {
      const file = path.join(folder, `ballast-${size}-${place}`);
      const written = await writeFile(file, Buffer.alloc(size)).then(
        () => true,
        () => false,
      );
      if (!written) break;
    }
  }
}
