import { open, rename, stat } from "node:fs/promises";
import path from "node:path";
import { ConfigurationError, UnavailableError } from "../../domain/errors.ts";
import type { OrderMirrorError } from "../../domain/errors.ts";
import { systemClock } from "../lifecycle/clock.ts";
import { makeLoop } from "../lifecycle/loop.ts";
import type { Loop } from "../lifecycle/loop.ts";
import { findFreePort } from "./freePort.ts";
import { withPidLock } from "./pidLock.ts";
import { loadPostgresBinaries } from "./postgresBinaries.ts";
import type { PostgresBinaries } from "./postgresBinaries.ts";
import { isCluster, openPostgresFolder, readConnection, SERVER_LOG, setUpCluster } from "./postgresFolder.ts";
import type { PostgresFolder } from "./postgresFolder.ts";
import { findPostmaster } from "./postmasterFile.ts";
import { findServerUser, nameOfCurrent, runServerProgram } from "./serverAccount.ts";
import type { ServerUser } from "./serverAccount.ts";
import { describeServerFailure, findFix } from "./serverFailure.ts";
import { enterAsUser, hasUsers } from "./serverUsers.ts";

const START_TIMEOUT_SECONDS = 60;
const STOP_TIMEOUT_SECONDS = 10;
const START_ATTEMPTS = 10;
const START_RETRY_MS = 300;
const SETTLE_POLL_MS = 100;
const WATCH_INTERVAL_MS = 1_000;
const LOG_BYTES_MAX = 10_000_000;
const LOG_TAIL_BYTES = 65_536;

/** A running Postgres under a folder of ours. */
export interface EmbeddedPostgres {
  /** Connection string of the database `postgres`, as superuser, on 127.0.0.1. Holds across restarts. */
  readonly url: string;
  /** True when another process was using the server already. */
  readonly shared: boolean;
  /** Stops using the server; the last process to do so stops it. Resolves when that is done. Safe to call twice. */
  readonly stop: () => Promise<void>;
}

export interface EmbeddedPostgresOptions {
  /** Folder for everything of the server; made when missing. */
  readonly dataDir: string;
  /** Port on 127.0.0.1; 0, the default, takes a free one. Ignored when a running server is joined. */
  readonly port?: number;
  /** False switches fsync off: for tests, whose data may die with the machine. Default true. */
  readonly durable?: boolean;
  /** Further `name=value` settings of the server. */
  readonly settings?: readonly string[];
  /** False leaves a server dead that died while in use. Default true. */
  readonly revive?: boolean;
  /** Called when this process has started a dead server again. */
  readonly onRevive?: () => void;
}

interface Deps {
  readonly folder: PostgresFolder;
  readonly user: ServerUser | undefined;
  readonly binaries: PostgresBinaries;
  readonly options: EmbeddedPostgresOptions;
}

/**
 * Starts the Postgres under `dataDir`, or joins the one that already runs there.
 *
 * Several processes may use one server: it is stopped by the last one, also when others were killed. One that dies
 * is started again on the same port. It runs in a session of its own, so Ctrl-C in a terminal does not reach it
 * before our own roles have finished. Throws ConfigurationError when the folder holds something else or cannot be
 * used, and UnavailableError when the server does not come up.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const folder = await openPostgresFolder(options.dataDir);
  const user = await findServerUser(folder.cluster);
  const binaries = await loadPostgresBinaries({ dataDir: folder.root, user });
  const deps: Deps = { folder, user, binaries, options };
  const started = await withPidLock(folder.lock, async () => {
    const shared = await hasUsers(folder.users);
    if (!isCluster(folder.cluster)) {
      await setUpCluster({ ...deps, durable: options.durable ?? true });
    }
    const makeUrl = await readConnection(folder);
    const leave = await enterAsUser(folder.users);
    try {
      const port = await ensureRunning(deps, options.port ?? 0);
      return { url: makeUrl(port), port, shared, leave };
    } catch (error) {
      await leave();
      throw error;
    }
  });
  let stopped: Promise<void> | undefined;
  const watching = watch(deps, started.port, () => stopped !== undefined);
  const leave = () =>
    withPidLock(folder.lock, async () => {
      await started.leave();
      if (!(await hasUsers(folder.users))) await stopServer(deps);
    });
  const stop = () => (stopped ??= watching.stop().then(leave));
  return { url: started.url, shared: started.shared, stop };
}

/** Starts the server again whenever it has died, until the loop is stopped. */
function watch(deps: Deps, port: number, isStopped: () => boolean): Loop {
  const { folder, options } = deps;
  const loop = makeLoop({
    async run() {
      if (await findPostmaster(folder.cluster)) return;
      const revived = await withPidLock(folder.lock, async () => {
        if (isStopped() || (await findPostmaster(folder.cluster))) return false;
        await start(deps, port);
        return true;
      });
      if (revived) options.onRevive?.();
    },
    everyMs: WATCH_INTERVAL_MS,
    pausesFirst: true,
    // Whoever needs the server sees that it is away, and the next look tries again.
    onError: () => undefined,
    clock: systemClock,
  });
  if (options.revive !== false) loop.start();
  return loop;
}

/** The port of the running server, started on `wantedPort` (0: a free one) if none runs. Call it under the lock. */
async function ensureRunning(deps: Deps, wantedPort: number): Promise<number> {
  const deadlineMs = systemClock.monotonicMs() + START_TIMEOUT_SECONDS * 1_000;
  for (;;) {
    const postmaster = await findPostmaster(deps.folder.cluster);
    if (!postmaster) return start(deps, wantedPort);
    if (postmaster.status === "ready") return postmaster.port;
    // Its starter or stopper was killed half-way; the server itself goes on.
    if (systemClock.monotonicMs() > deadlineMs) {
      throw new UnavailableError(`The embedded Postgres has been ${postmaster.status} for too long.`, {
        fix: `Read ${deps.folder.serverLog}.`,
      });
    }
    await systemClock.sleep(SETTLE_POLL_MS);
  }
}

async function start(deps: Deps, wantedPort: number): Promise<number> {
  const { folder, user, binaries, options } = deps;
  const cluster = nameOfCurrent(folder.cluster, user);
  for (let attempt = 1; ; attempt += 1) {
    const port = wantedPort || (await findFreePort());
    const settings = listSettings(options, port);
    const flags = settings.map((setting) => `-c ${setting}`).join(" ");
    const log = await openLog(folder.serverLog);
    const args = [
      "start",
      "-D",
      cluster,
      "-l",
      path.join(cluster, SERVER_LOG),
      "-w",
      "-t",
      String(START_TIMEOUT_SECONDS),
    ];
    try {
      await runServerProgram(binaries.pg_ctl, [...args, "-o", flags], { folder: folder.cluster, user });
      return port;
    } catch (error) {
      const written = await log.readNew();
      const passes = findPassing(written);
      if (attempt === START_ATTEMPTS || !passes || (wantedPort && passes === "port"))
        throw refuseStart({ error, written, port, serverLog: folder.serverLog });
      await systemClock.sleep(START_RETRY_MS);
    }
  }
}

function listSettings({ durable, settings = [] }: EmbeddedPostgresOptions, port: number): string[] {
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

const OTHER_MAJOR =
  /was initialized by PostgreSQL version (\d+), which is not compatible with this version (\d+)/;

/** What would pass by itself: a `port` that was taken meanwhile, or `children` of a killed server. */
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
}): OrderMirrorError {
  const { error, written, port, serverLog } = failed;
  const [, made, ours] = OTHER_MAJOR.exec(written) ?? [];
  if (made !== undefined) {
    return new ConfigurationError(
      `${path.dirname(serverLog)} holds data of PostgreSQL ${made}, and this release brings PostgreSQL ${ours}. Nothing was changed.`,
      {
        cause: error,
        fix: `Dump it while the release before runs on it (pg_dump), start this one with DATA_DIR at an empty folder, and restore the dump; or go without: the mirror fills itself from the provider.`,
      },
    );
  }
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

async function stopServer({ folder, user, binaries }: Deps): Promise<void> {
  if (!(await findPostmaster(folder.cluster))) return;
  const place = { folder: folder.cluster, user };
  const args = ["stop", "-D", nameOfCurrent(folder.cluster, user), "-w", "-t", String(STOP_TIMEOUT_SECONDS)];
  try {
    await runServerProgram(binaries.pg_ctl, [...args, "-m", "fast"], place);
  } catch {
    // A fast stop that hangs must not keep the process: an immediate one only costs crash recovery at next start.
    await runServerProgram(binaries.pg_ctl, [...args, "-m", "immediate"], place).catch(() => undefined);
  }
}
