import { randomBytes, randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { chown, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { ConfigurationError, UnavailableError } from "../domain/errors.ts";
import { describeFailure, findFix, openDataFolder } from "../process/dataFolder.ts";
import { systemClock } from "../process/clock.ts";
import { makeLoop, type Loop } from "../process/loop.ts";
import {
  identifyProcess,
  isIdentityAlive,
  isPidAlive,
  readCommandLine,
  withProcessLock,
} from "../process/processLock.ts";
import { findFreePort } from "./freePort.ts";
import { findServerUser, nameOfCurrent, openPrograms, OWN_POSTGRES } from "./serverPrograms.ts";

const SUPERUSER = "postgres";
/** Within the data folder. */
const CLUSTER = "postgres";
const NEW_CLUSTER = "postgres-new";
/** Within the cluster. */
const SERVER_LOG = "server.log";
const START_TIMEOUT_SECONDS = 60;
const STOP_TIMEOUT_SECONDS = 10;
const START_ATTEMPTS = 10;
const START_RETRY_MS = 300;
const WATCH_INTERVAL_MS = 1_000;

/** A running Postgres in a folder that this program manages. */
export interface EmbeddedPostgres {
  /** Connection string of the database `postgres`, as superuser, on 127.0.0.1. Stays the same across restarts. */
  readonly url: string;
  /** Stops using the server; the last process to do so stops the server. Resolves afterwards. May be called twice. */
  readonly stop: () => Promise<void>;
}

export interface EmbeddedPostgresOptions {
  /** Folder for everything of the server; created if missing. */
  readonly dataDir: string;
  /** Port on 127.0.0.1; 0, the default, takes a free one. Ignored when a running server is joined. */
  readonly port?: number;
  /** False: do not restart a server that dies while in use. Default true. */
  readonly revive?: boolean;
  /** Called when this process has restarted a dead server. */
  readonly onRevive?: () => void;
  /** False switches fsync off: for tests, whose data may be lost with the machine. Default true. */
  readonly durable?: boolean;
  /** Further `name=value` settings of the server. */
  readonly settings?: readonly string[];
  /** Ends a start before its next step, and initdb at once; nothing of a cluster that was being made remains. */
  readonly signal?: AbortSignal;
}

type Server = Awaited<ReturnType<typeof openServer>>;

/**
 * Starts the Postgres under `dataDir`, or joins the one that already runs there.
 *
 * Several processes may use one server: the last one stops it, even if others were killed. A server that dies is
 * restarted on the same port. It runs in a separate session, so Ctrl-C in a terminal does not reach it before our own
 * roles have finished. Throws ConfigurationError if the folder holds something else or is unusable, and
 * UnavailableError if the server does not start.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const server = await openServer(options);
  const { signal } = options;
  const open = async () => {
    signal?.throwIfAborted();
    if (!holdsCluster(server.root)) await setUp(server);
    signal?.throwIfAborted();
    const secret = encodeURIComponent(await readPassword(server));
    const leaveUsers = await enterAsUser(server.users);
    try {
      const running = await ensureRunning(server);
      const address = `postgres://${SUPERUSER}:${secret}@127.0.0.1:${running}/postgres`;
      return { url: address, port: running, leave: leaveUsers };
    } catch (error) {
      await leaveUsers();
      throw error;
    }
  };
  const { url, port, leave } = await withProcessLock(server.lock, open, signal);
  let stopped: Promise<void> | undefined;
  const watching = watch(server, port, () => stopped !== undefined);
  const leaveServer = async () => {
    await leave();
    if (!(await hasUsers(server.users))) await stop(server);
  };
  const stopOnce = async () => {
    await watching.stop();
    // Where the lock cannot be written, nobody else can enter now, either.
    await withProcessLock(server.lock, leaveServer).catch(leaveServer);
  };
  return { url, stop: () => (stopped ??= stopOnce()) };
}

/** True when a Postgres was set up in the data folder. */
export function holdsCluster(dataDir: string): boolean {
  return existsSync(path.join(dataDir, CLUSTER, "PG_VERSION"));
}

/** The files below the data folder, and what runs the server there. */
async function openServer(options: EmbeddedPostgresOptions) {
  const root = await openDataFolder(options.dataDir);
  const cluster = path.join(root, CLUSTER);
  if (existsSync(cluster) && !holdsCluster(root)) {
    throw new ConfigurationError(`${cluster} exists but is not a Postgres data folder.`, {
      fix: "Move it away, or point DATA_DIR at another folder.",
    });
  }
  const user = await findServerUser(cluster);
  return {
    root,
    cluster,
    log: path.join(cluster, SERVER_LOG),
    password: path.join(root, "postgres-password"),
    /** Held while the server is set up, started or stopped. */
    lock: path.join(root, "postgres-lock"),
    /** Notes, one per process that uses the server. */
    users: path.join(root, "postgres-users"),
    user,
    run: await openPrograms(user),
    options,
  };
}

async function readPassword({ cluster, password }: Server): Promise<string> {
  try {
    return await readFile(password, "utf8");
  } catch (error) {
    throw new ConfigurationError(
      `The password of the Postgres in ${cluster} cannot be read from ${password}.`,
      { cause: error, fix: "Put the file back, or point DATA_DIR at another folder." },
    );
  }
}

/**
 * Creates a new cluster with a new password. It is created in a temporary folder, which is then renamed, so that a kill
 * midway leaves nothing that looks complete.
 */
async function setUp({ root, cluster, password, user, run, options }: Server): Promise<void> {
  const fresh = path.join(root, `${NEW_CLUSTER}-${process.pid}`);
  const filled = path.join(fresh, "cluster");
  const secret = randomBytes(24).toString("base64url");
  try {
    // What killed processes left; under the lock, nobody is creating one.
    for (const name of await readdir(root))
      if (name.startsWith(NEW_CLUSTER)) await rm(path.join(root, name), { recursive: true, force: true });
    await mkdir(filled, { recursive: true, mode: 0o700 });
    await writeFile(path.join(fresh, "password"), secret, { mode: 0o600 });
    if (user)
      for (const name of ["", "cluster", "password"]) await chown(path.join(fresh, name), user.uid, user.gid);
    const place = [`--pgdata=${nameOfCurrent(filled, user)}`, `--username=${SUPERUSER}`];
    const locale = ["--encoding=UTF8", "--locale-provider=builtin", "--locale=C.UTF-8"];
    const safety = ["--pwfile=../password", "--auth=scram-sha-256"];
    if (options.durable === false) safety.push("--no-sync");
    options.signal?.throwIfAborted();
    // Its server reads what to do from initdb, and ends with it.
    await run("initdb", [...place, ...locale, ...safety], filled, options.signal);
    await writeFile(password, secret, { mode: 0o600 });
    await rename(filled, cluster);
  } catch (error) {
    options.signal?.throwIfAborted();
    throw explain(`be set up in ${root}`, error, "Point DATA_DIR at another folder");
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
}

/** Notes in `folder` that this process uses the server; the returned function removes the note. */
async function enterAsUser(folder: string): Promise<() => Promise<void>> {
  await mkdir(folder, { recursive: true });
  const file = path.join(folder, randomUUID());
  await writeFile(file, await identifyProcess());
  return () => rm(file, { force: true });
}

/** True while a running process is noted in `folder`. Notes of processes that were killed are removed. */
async function hasUsers(folder: string): Promise<boolean> {
  let found = false;
  for (const name of await readdir(folder).catch(() => [])) {
    const file = path.join(folder, name);
    if (await isIdentityAlive(await readFile(file, "utf8").catch(() => ""))) found = true;
    else await rm(file, { force: true });
  }
  return found;
}

/**
 * The server that runs in this folder, as postmaster.pid reports it, or undefined when none does. It takes connections
 * once its status is `ready`.
 *
 * The file alone is not enough: it remains when the server is killed, and another process may have its pid since then,
 * especially after a restart of the machine or container. So, where the system shows command lines, that of the process
 * must have the port. If the pid belongs to another program, the file is removed, because Postgres would refuse to
 * start. The file of a dead process is left to Postgres, which first makes sure that its children are gone.
 */
async function findPostmaster(cluster: string): Promise<{ port: number; status: string } | undefined> {
  const file = path.join(cluster, "postmaster.pid");
  const text = await readFile(file, "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  const [pid, , , port, , , , status = ""] = text.split("\n").map((line) => line.trim());
  if (!isPidAlive(Number(pid))) return undefined;
  const commandLine = await readCommandLine(Number(pid));
  if (commandLine === undefined || !port || commandLine.includes(`port=${port}`))
    return { port: Number(port), status };
  await rm(file, { force: true });
  return undefined;
}

/** Restarts the server whenever it has died, until the loop is stopped. */
function watch(server: Server, port: number, isStopped: () => boolean): Loop {
  const { cluster, lock, options } = server;
  const loop = makeLoop({
    async run() {
      if (await findPostmaster(cluster)) return;
      const revived = await withProcessLock(lock, async () => {
        if (isStopped() || (await findPostmaster(cluster))) return false;
        await start(server, port);
        return true;
      });
      if (revived) options.onRevive?.();
    },
    everyMs: WATCH_INTERVAL_MS,
    pausesFirst: true,
    // Users of the server see that it is down, and the next check tries again.
    onError: () => undefined,
    clock: systemClock,
  });
  if (options.revive !== false) loop.start();
  return loop;
}

/** The port of the running server, started if none runs. Call it under the lock. */
async function ensureRunning(server: Server): Promise<number> {
  const running = await findPostmaster(server.cluster);
  if (running?.status === "ready") return running.port;
  // The process that was starting or stopping it was killed midway.
  if (running) await stop(server);
  // At the same port, because others may use it.
  return start(server, running?.port || server.options.port || 0);
}

/** Words of the server when the folder is of another major version. */
const OTHER_MAJOR =
  /initialized by PostgreSQL version (\d+), which is not compatible with this version (\d+)/;

/** Another program was faster at this port, or children of a killed server still run; they end by themselves. */
const PASSING = /Address already in use|pre-existing shared memory block/;

/** Starts it at `wantedPort` (0: a free one); resolves with the port. Needs the lock. */
async function start({ cluster, log, user, run, options }: Server, wantedPort: number): Promise<number> {
  const name = nameOfCurrent(cluster, user);
  for (let attempt = 1; ; attempt += 1) {
    const port = wantedPort || (await findFreePort());
    const flags = listSettings(options, port).map((setting) => `-c ${setting}`);
    // The last log is kept, and the new one has only what this start says.
    await rename(log, `${log}.old`).catch(() => undefined);
    const place = ["-D", name, "-l", path.join(name, SERVER_LOG), "-o", flags.join(" ")];
    try {
      await run("pg_ctl", ["start", "-w", "-t", String(START_TIMEOUT_SECONDS), ...place], cluster);
      return port;
    } catch (error) {
      const said = await readFile(log, "utf8").catch(() => "");
      const [, made, ours] = OTHER_MAJOR.exec(said) ?? [];
      if (made !== undefined) {
        throw new ConfigurationError(
          `${cluster} holds data of PostgreSQL ${made}, and this version of order-mirror brings PostgreSQL ${ours}.`,
          {
            fix: "Run the version of order-mirror that made the folder, or point DATA_DIR at a new one: polling fills it again.",
          },
        );
      }
      if (attempt >= START_ATTEMPTS || !PASSING.test(said))
        throw explain("start", said.trim() === "" ? error : { stderr: said }, `Read ${log}`);
      await systemClock.sleep(START_RETRY_MS);
    }
  }
}

function explain(what: string, failure: unknown, otherwise: string): UnavailableError {
  return new UnavailableError(`The embedded Postgres could not ${what}: ${describeFailure(failure)}.`, {
    cause: failure,
    fix: `${findFix(failure) ?? otherwise}, or ${OWN_POSTGRES}.`,
  });
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

/** Stops the server if one runs in the cluster. Call it under the lock. */
async function stop({ cluster, user, run }: Server): Promise<void> {
  if (!(await findPostmaster(cluster))) return;
  const args = ["stop", "-D", nameOfCurrent(cluster, user), "-w", "-t", String(STOP_TIMEOUT_SECONDS)];
  // A fast stop that hangs must not block the process: an immediate stop only costs a crash recovery at the next start.
  await run("pg_ctl", [...args, "-m", "fast"], cluster)
    .catch(() => run("pg_ctl", [...args, "-m", "immediate"], cluster))
    .catch(() => undefined);
}
