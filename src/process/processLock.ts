import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { link, readFile, rename, rm, writeFile } from "node:fs/promises";
import { promisify } from "node:util";
import { UnavailableError } from "../domain/errors.ts";
import { describeFailure, findFix } from "./dataFolder.ts";
import { systemClock } from "./clock.ts";

const execFileAsync = promisify(execFile);
/** Place of the start time among the fields that follow the program's name in /proc/PID/stat (proc(5), field 22). */
const START_TIME_FIELD = 19;
const RETRY_MS = 50;
const WAIT_MAX_MS = 90_000;
/** Longer than another waiter needs between reading a dead holder's name and removing the lock. */
const SETTLE_MS = 25;

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

/**
 * Runs `work` while no other process or call runs its own under the same file. A lock whose holder was killed is taken
 * over. Throws UnavailableError if the holder does not release it within 90 s, or if the file cannot be written: the
 * disk is full, for example. A signal ends the wait, with its reason.
 */
export async function withProcessLock<Result>(
  file: string,
  work: () => Promise<Result>,
  signal?: AbortSignal,
): Promise<Result> {
  const holder = `${await identifyProcess()}:${randomUUID()}`;
  for (let waitedMs = 0; !(await acquire(file, holder)); waitedMs += RETRY_MS) {
    if (waitedMs >= WAIT_MAX_MS) {
      throw new UnavailableError(`Another process holds ${file} and does not let go.`, {
        fix: "End that process, whose number the file holds, or remove the file if there is none.",
      });
    }
    signal?.throwIfAborted();
    await systemClock.sleep(RETRY_MS);
  }
  try {
    return await work();
  } finally {
    await rm(file, { force: true });
  }
}

async function acquire(file: string, holder: string): Promise<boolean> {
  if (await create(file, holder)) return true;
  const other = await readFile(file, "utf8").catch(() => undefined);
  if (other === undefined || (await isIdentityAlive(other))) return false;
  const stale = `${file}-stale-${randomUUID()}`;
  await rename(file, stale).catch(() => undefined);
  await rm(stale, { force: true });
  if (!(await create(file, holder))) return false;
  // Another waiter may have found the same dead holder, and then have moved our lock away instead of the dead one's.
  await systemClock.sleep(SETTLE_MS);
  return (await readFile(file, "utf8").catch(() => "")) === holder;
}

/** Written elsewhere and linked, so that the file never stands there without the name of its holder. */
async function create(file: string, holder: string): Promise<boolean> {
  const written = `${file}-${randomUUID()}`;
  try {
    await writeFile(written, holder, { mode: 0o600 });
    await link(written, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw new UnavailableError(`${file} cannot be written: ${describeFailure(error)}.`, {
      cause: error,
      fix: `${findFix(error) ?? "Let this account write there"}, then try again.`,
    });
  } finally {
    await rm(written, { force: true });
  }
}
