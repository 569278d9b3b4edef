import { execFile } from "node:child_process";
import { promisify } from "node:util";

const KILOBYTES_PER_MEGABYTE = 1_024;

/** Current resident memory of a process. Rejects when there is no such process. */
export async function readMegabytes(pid: number): Promise<number> {
  const { stdout } = await promisify(execFile)("ps", ["-o", "rss=", "-p", String(pid)]);
  return Number(stdout.trim()) / KILOBYTES_PER_MEGABYTE;
}
