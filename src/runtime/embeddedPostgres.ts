import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { chmod, chown, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { ConfigurationError, UnavailableError } from "../domain/errors.ts";
import { findFreePort } from "./freePort.ts";
import { findServerUser, loadPostgresBinaries, runAsServerUser } from "./postgresBinaries.ts";
import type { PostgresBinaries, ServerUser } from "./postgresBinaries.ts";
import { isAlive, readPostmaster, removeStalePidFile } from "./postmasterFile.ts";

const SUPERUSER = "postgres";
const START_TIMEOUT_SECONDS = 60;
const STOP_TIMEOUT_SECONDS = 10;
const START_ATTEMPTS = 3;

/** A running Postgres under a folder of ours. */
export interface EmbeddedPostgres {
  /** Connection string of the database `postgres`, as superuser, on 127.0.0.1. */
  readonly url: string;
  /** True when another live process started the server and will stop it. */
  readonly shared: boolean;
  /** Stops the server if this process owns it; resolves when it is down. Safe to call twice. */
  stop(): Promise<void>;
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
}

interface Layout {
  readonly root: string;
  readonly cluster: string;
  readonly password: string;
  readonly owner: string;
}

/**
 * Starts the Postgres under `dataDir`, or joins the one that already runs there.
 *
 * A server left behind by a process that was killed is adopted: this process then owns and stops it. The
 * server runs in a session of its own, so Ctrl-C in a terminal does not reach it before our own roles have
 * finished. Throws ConfigurationError when the folder holds something else or cannot be used, and
 * UnavailableError when the server does not come up.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const layout = layOut(options.dataDir);
  const user = findServerUser();
  const binaries = await loadPostgresBinaries();
  await prepareFolder(layout);
  if (!existsSync(path.join(layout.cluster, "PG_VERSION"))) {
    await initialise({ layout, binaries, user });
  }
  for (let attempt = 1; ; attempt += 1) {
    const running = await join(layout, binaries);
    if (running) return running;
    try {
      return await start({ layout, binaries, user, options });
    } catch (error) {
      // Another process may have started the server, or taken the free port, between our look and our try.
      if (attempt === START_ATTEMPTS) throw error;
    }
  }
}

function layOut(dataDir: string): Layout {
  const root = path.resolve(dataDir);
  return {
    root,
    cluster: path.join(root, "postgres"),
    password: path.join(root, "postgres-password"),
    owner: path.join(root, "postgres-owner.pid"),
  };
}

async function prepareFolder({ root, cluster }: Layout): Promise<void> {
  try {
    await mkdir(root, { recursive: true });
  } catch (error) {
    throw new ConfigurationError(`DATA_DIR ${root} cannot be created.`, {
      cause: error,
      fix: "Point DATA_DIR at a folder that this user may write to.",
    });
  }
  if (existsSync(cluster) && !existsSync(path.join(cluster, "PG_VERSION"))) {
    throw new ConfigurationError(`${cluster} exists but is not a Postgres data folder.`, {
      fix: "Move it away, or point DATA_DIR at another folder.",
    });
  }
}

async function initialise(deps: {
  layout: Layout;
  binaries: PostgresBinaries;
  user: ServerUser | undefined;
}) {
  const { layout, binaries, user } = deps;
  // Made beside its final place and moved there whole, so that a kill half-way leaves nothing that looks ready.
  const fresh = `${layout.cluster}-new-${process.pid}`;
  const password = randomBytes(24).toString("base64url");
  const passwordFile = `${fresh}-password`;
  await rm(fresh, { recursive: true, force: true });
  await mkdir(fresh, { mode: 0o700 });
  await writeFile(passwordFile, password, { mode: 0o600 });
  if (user) {
    await chown(fresh, user.uid, user.gid);
    await chown(passwordFile, user.uid, user.gid);
  }
  try {
    const flags = ["--encoding=UTF8", "--locale-provider=builtin", "--locale=C.UTF-8", "--no-sync"];
    const args = [`--pgdata=${fresh}`, `--username=${SUPERUSER}`, `--pwfile=${passwordFile}`, ...flags];
    await runAsServerUser(binaries.initdb, [...args, "--auth=scram-sha-256"], user);
    await writeFile(layout.password, password, { mode: 0o600 });
    await chmod(layout.password, 0o600);
    await rename(fresh, layout.cluster);
  } catch (error) {
    await rm(fresh, { recursive: true, force: true });
    if (existsSync(path.join(layout.cluster, "PG_VERSION"))) return;
    throw new UnavailableError(`The embedded Postgres could not be set up in ${layout.root}.`, {
      cause: error,
      fix: "See the reason below, or set DATABASE_URL to a Postgres of your own.",
    });
  } finally {
    await rm(passwordFile, { force: true });
  }
}

/** The server that already runs in this folder, or undefined when none does. */
async function join(layout: Layout, binaries: PostgresBinaries): Promise<EmbeddedPostgres | undefined> {
  const postmaster = await readPostmaster(layout.cluster);
  if (!postmaster) return undefined;
  if (!(await isAlive(postmaster.pid, layout.cluster))) {
    await removeStalePidFile(layout.cluster);
    return undefined;
  }
  const url = await connectionUrl(layout, postmaster.port);
  const owner = Number(await readFile(layout.owner, "utf8").catch(() => "0"));
  const shared = owner !== process.pid && (await isAlive(owner));
  if (shared) return { url, shared, stop: () => Promise.resolve() };
  await writeFile(layout.owner, String(process.pid));
  return { url, shared, stop: makeStop(layout, binaries, findServerUser()) };
}

async function start(deps: {
  layout: Layout;
  binaries: PostgresBinaries;
  user: ServerUser | undefined;
  options: EmbeddedPostgresOptions;
}): Promise<EmbeddedPostgres> {
  const { layout, binaries, user, options } = deps;
  const port = options.port || (await findFreePort());
  const durability = options.durable === false ? ["fsync=off", "full_page_writes=off"] : [];
  const settings = [
    `port=${port}`,
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=200",
    "timezone=UTC",
    "log_timezone=UTC",
    ...durability,
    ...(options.settings ?? []),
  ];
  const serverLog = path.join(layout.cluster, "server.log");
  const flags = settings.map((setting) => `-c ${setting}`).join(" ");
  const args = ["start", "-D", layout.cluster, "-l", serverLog, "-w", "-t", String(START_TIMEOUT_SECONDS)];
  try {
    await runAsServerUser(binaries.pg_ctl, [...args, "-o", flags], user);
  } catch (error) {
    throw new UnavailableError(await explainFailedStart(serverLog, port), {
      cause: error,
      fix: `Read ${serverLog}, or set DATABASE_URL to a Postgres of your own.`,
    });
  }
  await writeFile(layout.owner, String(process.pid));
  return { url: await connectionUrl(layout, port), shared: false, stop: makeStop(layout, binaries, user) };
}

async function explainFailedStart(serverLog: string, port: number): Promise<string> {
  const log = await readFile(serverLog, "utf8").catch(() => "");
  const lastFatal = log.split("\n").findLast((line) => line.includes("FATAL:"));
  if (log.slice(-4_000).includes("Address already in use")) {
    return `The embedded Postgres could not start: port ${port} on 127.0.0.1 is taken.`;
  }
  return `The embedded Postgres could not start${lastFatal ? `: ${lastFatal.replace(/^.*FATAL:\s*/, "")}` : ""}.`;
}

async function connectionUrl(layout: Layout, port: number): Promise<string> {
  const password = await readFile(layout.password, "utf8");
  return `postgres://${SUPERUSER}:${encodeURIComponent(password)}@127.0.0.1:${port}/postgres`;
}

function makeStop(layout: Layout, binaries: PostgresBinaries, user: ServerUser | undefined) {
  let stopped: Promise<void> | undefined;
  return () => (stopped ??= stop(layout, binaries, user));
}

async function stop(layout: Layout, binaries: PostgresBinaries, user: ServerUser | undefined): Promise<void> {
  const args = ["stop", "-D", layout.cluster, "-w", "-t", String(STOP_TIMEOUT_SECONDS)];
  try {
    await runAsServerUser(binaries.pg_ctl, [...args, "-m", "fast"], user);
  } catch {
    // A fast stop that hangs must not keep the process: an immediate one only costs crash recovery at next start.
    await runAsServerUser(binaries.pg_ctl, [...args, "-m", "immediate"], user).catch(() => undefined);
  }
  await rm(layout.owner, { force: true });
}
