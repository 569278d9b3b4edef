import { readFile } from "node:fs/promises";
import type { RunningProgram } from "./program.ts";

/** Memory that the program holds, in bytes; only Linux shows it. */
export async function readRssBytes({ child }: RunningProgram): Promise<number> {
  const status = await readFile(`/proc/${child.pid}/status`, "utf8");
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) * 1_024;
}
