import { readdir, readFile } from "node:fs/promises";
import type { Pool } from "../../src/database/database.ts";

/** The kernel shows it in hundredths of a second. */
const MICROS_PER_TICK = 10_000;

/** What /proc shows of a process; times in microseconds. */
interface ProcessTime {
  readonly parent: number;
  readonly own: number;
  /** Of children that have ended. */
  readonly ended: number;
}

/** Throws where the processor time of other processes is not shown. */
export function requireProcessorTime(): void {
  if (process.platform !== "linux")
    throw new Error("Only Linux shows the processor time of a server's processes.");
}

/** Processor time of all threads of a process so far, in microseconds. Rejects where there is no /proc. */
export async function readProcessorTime(pid: number): Promise<number> {
  return (await readProcess(pid)).own;
}

/** That of a Postgres server: all of its processes, including those that have ended. */
export async function readServerTime(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ pid: number }>("select pg_backend_pid() as pid");
  const { parent: postmaster } = await readProcess(rows[0]?.pid ?? 0);
  const { own, ended } = await readProcess(postmaster);
  const pids = (await readdir("/proc")).map(Number).filter((pid) => pid > 0);
  // One that has just ended is counted by its parent.
  const processes = await Promise.all(pids.map((pid) => readProcess(pid).catch(() => undefined)));
  const children = processes.filter((each) => each?.parent === postmaster);
  return children.reduce((sum, child) => sum + (child?.own ?? 0), own + ended);
}

async function readProcess(pid: number): Promise<ProcessTime> {
  const text = await readFile(`/proc/${pid}/stat`, "utf8");
  // The name in parentheses may contain anything. After it: state, parent, and from the twelfth on the times.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const micros = (from: number) => (Number(fields[from]) + Number(fields[from + 1])) * MICROS_PER_TICK;
  return { parent: Number(fields[1]), own: micros(11), ended: micros(13) };
}
