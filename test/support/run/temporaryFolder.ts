import {
  accessSync,
  chmodSync,
  constants,
  mkdirSync,
  readdirSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from "node:fs";
import { freemem } from "node:os";
import path from "node:path";

const MEMORY = "/dev/shm";
/** Servers of six workers, their logs and a few hundred databases of 10 MB stay well below. */
const BYTES_MIN = 4e9;
const NAME = /^order-mirror-tests-(\d+)$/;

/**
 * Sets TMPDIR to a folder in memory if the system has one with enough room: creating a test's database, about a thousand
 * small files, takes a thirtieth of the time there. Keeps a TMPDIR that is already set. The folder is removed with this
 * process; folders of earlier runs that were killed are removed now.
 */
export function keepTemporaryFilesInMemory(): void {
  if (process.env["TMPDIR"] !== undefined || !hasRoom()) return;
  for (const name of readdirSync(MEMORY)) {
    const pid = NAME.exec(name)?.[1];
    if (pid !== undefined && !isAlive(Number(pid))) removeLeftover(path.join(MEMORY, name));
  }
  const folder = path.join(MEMORY, `order-mirror-tests-${process.pid}`);
  mkdirSync(folder, { recursive: true });
  // The server's own user must be able to enter.
  chmodSync(folder, 0o1777);
  if (!canExecute(folder)) {
    remove(folder);
    return;
  }
  process.env["TMPDIR"] = folder;
  process.once("exit", () => remove(folder));
}

function hasRoom(): boolean {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    return Math.min(bavail * bsize, freemem()) >= BYTES_MIN;
  } catch {
    return false;
  }
}

/** Whether programs that a test writes there can be started: containers often forbid it. */
function canExecute(folder: string): boolean {
  const program = path.join(folder, "program");
  writeFileSync(program, "", { mode: 0o755 });
  try {
    accessSync(program, constants.X_OK);
    return true;
  } catch {
    return false;
  } finally {
    remove(program);
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** What cannot be removed, such as a disk that a killed test had mounted, stays: it concerns no other run. */
function removeLeftover(folder: string): void {
  try {
    remove(folder);
  } catch (error) {
    process.stderr.write(`NOTICE: ${folder} of an earlier run could not be removed: ${String(error)}\n`);
  }
}

function remove(file: string): void {
  rmSync(file, { recursive: true, force: true, maxRetries: 3 });
}
