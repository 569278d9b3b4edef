import { readFile, rm } from "node:fs/promises";
import path from "node:path";
import { isPidAlive, readCommandLine } from "./processIdentity.ts";
import { CURRENT_FOLDER } from "./serverAccount.ts";

/** What the server reports about itself in `postmaster.pid`. */
export interface Postmaster {
  readonly port: number;
  /** `ready` once it takes connections; before and after that `starting`, `stopping` or nothing. */
  readonly status: string;
}

const DATA_FOLDER_LINE = 1;
const PORT_LINE = 3;
const STATUS_LINE = 7;

/**
 * The server that runs in this folder, or undefined when none does.
 *
 * The file alone is not enough: it remains when the server is killed, and another process may have its pid since then,
 * especially after a restart of the machine or container. So, where the system shows command lines, that of the process
 * must also contain the folder that the file names, or the port when the folder has no specific name. If the pid belongs
 * to another program, the file is removed, because Postgres would refuse to start. The file of a dead process is left to
 * Postgres, which first makes sure that its children are gone.
 */
export async function findPostmaster(cluster: string): Promise<Postmaster | undefined> {
  const file = path.join(cluster, "postmaster.pid");
  const text = await readFile(file, "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  const lines = text.split("\n").map((line) => line.trim());
  const pid = Number(lines[0]);
  if (!isPidAlive(pid)) return undefined;
  const commandLine = await readCommandLine(pid);
  const port = Number(lines[PORT_LINE]);
  const folder = lines[DATA_FOLDER_LINE];
  const mark = folder === CURRENT_FOLDER ? `port=${port}` : folder;
  if (commandLine !== undefined && mark && !commandLine.includes(mark)) {
    await rm(file, { force: true });
    return undefined;
  }
  return { port, status: lines[STATUS_LINE] ?? "" };
}
