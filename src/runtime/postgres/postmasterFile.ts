import { readFile, rm } from "node:fs/promises";
import path from "node:path";
import { isPidAlive, readCommandLine } from "./processIdentity.ts";
import { CURRENT_FOLDER } from "./serverAccount.ts";

/** What the server says of itself in `postmaster.pid`. */
export interface Postmaster {
  readonly pid: number;
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
 * The file alone does not tell: it stays behind when the server is killed, and its pid may have gone to a stranger
 * since, above all after a restart of the machine or container. So the process must also name the folder that the
 * file names in its command line, where the system shows that, or the port where the folder has no name of its own. The
 * file of a stranger is removed, as Postgres would
 * refuse to start; that of a dead process is left to Postgres, which first makes sure that its children are gone.
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
  return { pid, port, status: lines[STATUS_LINE] ?? "" };
}
