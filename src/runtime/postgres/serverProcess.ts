import { open, rename, stat } from "node:fs/promises";
import path from "node:path";
import { UnavailableError } from "../../domain/errors.ts";
import { systemClock } from "../lifecycle/clock.ts";
import { findFreePort } from "./freePort.ts";
import type { PostgresBinaries } from "./postgresBinaries.ts";
import { SERVER_LOG } from "./postgresFolder.ts";
import { findPostmaster } from "./postmasterFile.ts";
import { nameOfCurrent, runServerProgram } from "./serverAccount.ts";
import type { ServerUser } from "./serverAccount.ts";
import { describeServerFailure, findFix } from "./serverFailure.ts";

export const START_TIMEOUT_SECONDS = 60;
const STOP_TIMEOUT_SECONDS = 10;
const START_ATTEMPTS = 10;
const START_RETRY_MS = 300;
const LOG_BYTES_MAX = 10_000_000;
const LOG_TAIL_BYTES = 65_536;

/** A cluster, and the programs and account that run its server. */
export interface ServerProcess {
  readonly cluster: string;
  readonly user: ServerUser | undefined;
  readonly binaries: PostgresBinaries;
}

export interface ServerSettings {
  /** False switches fsync off: for tests, whose data may be lost with the machine. Default true. */
  readonly durable?: boolean;
  /** Further `name=value` settings of the server. */
  readonly settings?: readonly string[];
}

/** Starts it at `wantedPort` (0: a free one); resolves with the port. Throws UnavailableError. Needs the lock. */
export async function startServer(
  { cluster: folder, user, binaries }: ServerProcess,
  wantedPort: number,
  options: ServerSettings = {},
): Promise<number> {
  const cluster = nameOfCurrent(folder, user);
  const serverLog = path.join(folder, SERVER_LOG);
  for (let attempt = 1; ; attempt += 1) {
    const port = wantedPort || (await findFreePort());
    const settings = listSettings(options, port);
    const flags = settings.map((setting) => `-c ${setting}`).join(" ");
    const log = await openLog(serverLog);
    const args = ["start", "-D", cluster, "-w", "-t", String(START_TIMEOUT_SECONDS), "-o", flags];
    try {
      await runServerProgram(binaries.pg_ctl, [...args, "-l", path.join(cluster, SERVER_LOG)], {
        folder,
        user,
      });
      return port;
    } catch (error) {
      const written = await log.readNew();
      const passes = findPassing(written);
      if (attempt === START_ATTEMPTS || !passes || (wantedPort && passes === "port"))
        throw refuseStart({ error, written, port, serverLog });
      await systemClock.sleep(START_RETRY_MS);
    }
  }
}

function listSettings({ durable, settings = [] }: ServerSettings, port: number): string[] {
  return [
    `port=${port}`,
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=200",
    "timezone=UTC",
    "log_timezone=UTC",
    ...(durable === false ? ["fsync=off", "full_page_writes=off"] : []),
    ...settings,
  ];
}

/** A temporary cause: a `port` that was taken in the meantime, or `children` of a killed server. */
function findPassing(log: string): "port" | "children" | undefined {
  if (log.includes("Address already in use")) return "port";
  return log.includes("pre-existing shared memory block") ? "children" : undefined;
}

function refuseStart(failed: {
  error: unknown;
  /** What the server added to its log. */
  written: string;
  port: number;
  serverLog: string;
}): UnavailableError {
  const { error, written, port, serverLog } = failed;
  const failure = written.trim() === "" ? error : { stderr: written };
  const reason =
    findPassing(written) === "port" ? `port ${port} on 127.0.0.1 is taken` : describeServerFailure(failure);
  return new UnavailableError(`The embedded Postgres could not start: ${reason}.`, {
    cause: error,
    fix: `${findFix(failure) ?? `Read ${serverLog}`}, or set DATABASE_URL to a Postgres of your own.`,
  });
}

/** The server's log, set aside when it has grown big; `readNew` reads what was added since. */
async function openLog(file: string): Promise<{ readNew: () => Promise<string> }> {
  const size = await stat(file).then(
    (found) => found.size,
    () => 0,
  );
  const full = size > LOG_BYTES_MAX;
  if (full) await rename(file, `${file}.old`);
  const readNew = async () => {
    const handle = await open(file).catch(() => undefined);
    if (!handle) return "";
    try {
      const { buffer, bytesRead } = await handle.read({
        position: full ? 0 : size,
        buffer: Buffer.alloc(LOG_TAIL_BYTES),
      });
      return buffer.toString("utf8", 0, bytesRead);
    } finally {
      await handle.close();
    }
  };
  return { readNew };
}

/** Stops the server if one runs in the cluster. Call it under the folder's lock. */
export async function stopServer({ cluster, user, binaries }: ServerProcess): Promise<void> {
  if (!(await findPostmaster(cluster))) return;
  const place = { folder: cluster, user };
  const args = ["stop", "-D", nameOfCurrent(cluster, user), "-w", "-t", String(STOP_TIMEOUT_SECONDS)];
  try {
    await runServerProgram(binaries.pg_ctl, [...args, "-m", "fast"], place);
  } catch {
    // A fast stop that hangs must not block the process: an immediate stop only costs a crash recovery at the next start.
    await runServerProgram(binaries.pg_ctl, [...args, "-m", "immediate"], place).catch(() => undefined);
  }
}
