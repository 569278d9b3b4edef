import { UnavailableError } from "../../domain/errors.ts";
import { systemClock } from "../lifecycle/clock.ts";
import { makeLoop } from "../lifecycle/loop.ts";
import type { Loop } from "../lifecycle/loop.ts";
import { assertSameMajor } from "./clusterMajor.ts";
import { LockUnwritableError, withPidLock } from "./pidLock.ts";
import { loadPostgresBinaries } from "./postgresBinaries.ts";
import { isCluster, openPostgresFolder, readConnection, setUpCluster } from "./postgresFolder.ts";
import type { PostgresFolder } from "./postgresFolder.ts";
import { findPostmaster } from "./postmasterFile.ts";
import { findServerUser } from "./serverAccount.ts";
import { START_TIMEOUT_SECONDS, startServer, stopServer } from "./serverProcess.ts";
import type { ServerProcess, ServerSettings } from "./serverProcess.ts";
import { enterAsUser, hasUsers } from "./serverUsers.ts";
import { finishReplacement } from "./upgradeCluster.ts";

const SETTLE_POLL_MS = 100;
const WATCH_INTERVAL_MS = 1_000;

/** A running Postgres in a folder that this program manages. */
export interface EmbeddedPostgres {
  /** Connection string of the database `postgres`, as superuser, on 127.0.0.1. Stays the same across restarts. */
  readonly url: string;
  /** True if another process was already using the server. */
  readonly shared: boolean;
  /** Stops using the server; the last process to do so stops the server. Resolves afterwards. May be called twice. */
  readonly stop: () => Promise<void>;
}

export interface EmbeddedPostgresOptions extends ServerSettings {
  /** Folder for everything of the server; created if missing. */
  readonly dataDir: string;
  /** Port on 127.0.0.1; 0, the default, takes a free one. Ignored when a running server is joined. */
  readonly port?: number;
  /** False: do not restart a server that dies while in use. Default true. */
  readonly revive?: boolean;
  /** Called when this process has restarted a dead server. */
  readonly onRevive?: () => void;
}

interface Deps {
  readonly folder: PostgresFolder;
  readonly server: ServerProcess;
  readonly options: EmbeddedPostgresOptions;
}

/**
 * Starts the Postgres under `dataDir`, or joins the one that already runs there.
 *
 * Several processes may use one server: the last one stops it, even if others were killed. A server that dies is
 * restarted on the same port. It runs in a separate session, so Ctrl-C in a terminal does not reach it before our own
 * roles have finished. Throws ConfigurationError if the folder holds something else or is unusable, and
 * UnavailableError if the server does not start.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const folder = await openPostgresFolder(options.dataDir);
  const user = await findServerUser(folder.cluster);
  const binaries = await loadPostgresBinaries({ dataDir: folder.root, user });
  const server: ServerProcess = { cluster: folder.cluster, user, binaries };
  const deps: Deps = { folder, server, options };
  const started = await withPidLock(folder.lock, async () => {
    const shared = await hasUsers(folder.users);
    await finishReplacement(folder);
    if (isCluster(folder.cluster)) await assertSameMajor(server);
    else {
      await setUpCluster({ folder, binaries, user, durable: options.durable ?? true });
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
  const leaveServer = async () => {
    await started.leave();
    if (!(await hasUsers(folder.users))) await stopServer(server);
  };
  const leave = () =>
    withPidLock(folder.lock, leaveServer).catch((error: unknown) => {
      // Nobody else can enter now, either.
      if (error instanceof LockUnwritableError) return leaveServer();
      throw error;
    });
  const stop = () => (stopped ??= watching.stop().then(leave));
  return { url: started.url, shared: started.shared, stop };
}

/** Restarts the server whenever it has died, until the loop is stopped. */
function watch(deps: Deps, port: number, isStopped: () => boolean): Loop {
  const { folder, server, options } = deps;
  const loop = makeLoop({
    async run() {
      if (await findPostmaster(folder.cluster)) return;
      const revived = await withPidLock(folder.lock, async () => {
        if (isStopped() || (await findPostmaster(folder.cluster))) return false;
        await startServer(server, port, options);
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

/** The port of the running server, started on `wantedPort` (0: a free one) if none runs. Call it under the lock. */
async function ensureRunning(deps: Deps, wantedPort: number): Promise<number> {
  const deadlineMs = systemClock.monotonicMs() + START_TIMEOUT_SECONDS * 1_000;
  for (;;) {
    const postmaster = await findPostmaster(deps.folder.cluster);
    if (!postmaster) return startServer(deps.server, wantedPort, deps.options);
    if (postmaster.status === "ready") return postmaster.port;
    // The process that was starting or stopping it was killed midway; the server itself keeps running.
    if (systemClock.monotonicMs() > deadlineMs) {
      throw new UnavailableError(`The embedded Postgres has been ${postmaster.status} for too long.`, {
        fix: `Read ${deps.folder.serverLog}.`,
      });
    }
    await systemClock.sleep(SETTLE_POLL_MS);
  }
}
