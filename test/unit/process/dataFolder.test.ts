import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { openDataFolder } from "../../../src/process/dataFolder.ts";

const folder = mkdtempSync(path.join(tmpdir(), "order-mirror-disk-"));
const mounted = mountReadOnly();
if (!mounted) process.stderr.write("NOT RUN: a data folder on a read-only disk; only root may mount one.\n");

function mountReadOnly(): boolean {
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m,ro", "tmpfs", folder], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

afterAll(() => {
  if (mounted) execFileSync("umount", [folder]);
  rmSync(folder, { recursive: true, force: true });
});

describe.runIf(mounted)("a data folder on a read-only disk", () => {
  it("is refused with the true cause", async () => {
    await expect(openDataFolder(path.join(folder, ".data"))).rejects.toThrow(
      /cannot be created or written to: .*read-only/,
    );
  });
});
