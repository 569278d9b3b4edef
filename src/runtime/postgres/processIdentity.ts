import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";

const execFileAsync = promisify(execFile);
/** Place of the start time among the fields that follow the program's name in /proc/PID/stat (proc(5), field 22). */
const START_TIME_FIELD = 19;

/** Text that identifies this process: its pid and, if the system shows it, its start time. */
export async function identifyProcess(pid = process.pid): Promise<string> {
  return `${pid}:${await readStartTime(pid)}`;
}

/** True while the process of `identity` runs; false if its pid now belongs to another one. */
export async function isIdentityAlive(identity: string): Promise<boolean> {
  const [pid = "", startTime = ""] = identity.split(":");
  if (!isPidAlive(Number(pid))) return false;
  const startTimeNow = await readStartTime(Number(pid));
  return startTime === "" || startTimeNow === "" || startTime === startTimeNow;
}

export function isPidAlive(pid: number): boolean {
  if (!Number.isInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it runs, but belongs to another user.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** The command line of a process, or undefined when the system does not show it. */
export async function readCommandLine(pid: number): Promise<string | undefined> {
  try {
    return (await readFile(`/proc/${pid}/cmdline`, "utf8")).replaceAll("\0", " ");
  } catch {
    // No /proc outside Linux.
    const asked = await execFileAsync("ps", ["-ww", "-p", String(pid), "-o", "command="]).catch(
      () => undefined,
    );
    return asked?.stdout;
  }
}

async function readStartTime(pid: number): Promise<string> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  // The name is in parentheses and may itself contain spaces and parentheses.
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[START_TIME_FIELD] ?? "";
}
