import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";

const BYTES_PER_KILOBYTE = 1_024;

/**
 * Memory that a process holds, in bytes. On Linux from /proc: starting `ps` several times a second takes processor time from
 * what is measured. Rejects when there is no such process.
 */
export async function readRssBytes(pid: number): Promise<number> {
  const [, kilobytes] =
    process.platform === "linux"
      ? (/VmRSS:\s+(\d+) kB/.exec(await readFile(`/proc/${pid}/status`, "utf8")) ?? [])
      : ["", (await promisify(execFile)("ps", ["-o", "rss=", "-p", String(pid)])).stdout];
  return Number(kilobytes) * BYTES_PER_KILOBYTE;
}
