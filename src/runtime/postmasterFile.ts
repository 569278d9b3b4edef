import { readFile, rm } from "node:fs/promises";
import path from "node:path";

const PORT_LINE = 3;

/** Pid and port that the server wrote into `postmaster.pid`; undefined when there is no such file. */
export async function readPostmaster(cluster: string): Promise<{ pid: number; port: number } | undefined> {
  const text = await readFile(pidFile(cluster), "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  const lines = text.split("\n");
  return { pid: Number(lines[0]), port: Number(lines[PORT_LINE]) };
}

/**
 * Whether process `pid` lives. With `mentions`, also whether its command line contains that text where the
 * system shows command lines: after a restart of the machine or container, a pid may belong to a stranger.
 */
export async function isAlive(pid: number, mentions?: string): Promise<boolean> {
  if (!Number.isInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM: it lives, but belongs to another user.
    if ((error as NodeJS.ErrnoException).code !== "EPERM") return false;
  }
  if (mentions === undefined) return true;
  const commandLine = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => undefined);
  return commandLine === undefined || commandLine.includes(mentions);
}

/** Removes a pid file whose process is gone: Postgres itself refuses to start if the pid was given to another. */
export async function removeStalePidFile(cluster: string): Promise<void> {
  await rm(pidFile(cluster), { force: true });
}

function pidFile(cluster: string): string {
  return path.join(cluster, "postmaster.pid");
}
