import { randomBytes } from "node:crypto";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { ConfigurationError } from "../../domain/errors.ts";
import type { Config } from "../../runtime/config/config.ts";
import { withPidLock } from "../../runtime/postgres/pidLock.ts";
import { holdsCluster, openDataFolder } from "../../runtime/postgres/postgresFolder.ts";
import { identifyProcess, isIdentityAlive } from "../../runtime/postgres/processIdentity.ts";

const SECRET_BYTES = 24;

/** Where a running demo answers. */
export interface DemoAddresses {
  readonly port: number;
  readonly webhookPort: number | null;
  readonly sandboxPort: number;
  readonly ops: string;
}

interface DemoNote {
  /** Of its process, as identifyProcess names it. */
  readonly process: string;
  /** Absent while it starts. */
  readonly addresses?: DemoAddresses;
}

export interface DemoSecrets {
  readonly live: string;
  readonly test: string;
}

/** The demo's hold on its folder. */
export interface DemoHold {
  readonly dataDir: string;
  /** Webhook secrets, made at the folder's first start: a second start goes on with the first's events. */
  readonly secrets: DemoSecrets;
  /** Tells other commands where the demo answers. */
  readonly announce: (addresses: DemoAddresses) => Promise<void>;
  readonly leave: () => Promise<void>;
}

/** The demo keeps to a folder of its own, so that its orders never get into a mirror of real ones. */
function demoFolder(dataDir: string): string {
  return path.join(dataDir, "demo");
}

/**
 * Takes the demo's folder below `dataDir`, made when missing, for this process. Throws ConfigurationError when it
 * cannot be used, or a demo runs there already.
 */
export async function enterDemoFolder(dataDir: string): Promise<DemoHold> {
  const folder = await openDataFolder(demoFolder(dataDir));
  const file = noteFile(folder);
  const identity = await identifyProcess();
  await withPidLock(path.join(folder, "demo-lock"), async () => {
    const running = await findNote(folder);
    if (running !== undefined) throw refuse(running);
    await writeNote(file, { process: identity });
  });
  return {
    dataDir: folder,
    secrets: await readSecrets(folder),
    announce: (addresses) => writeNote(file, { process: identity, addresses }),
    leave: () => rm(file, { force: true }),
  };
}

function refuse({ addresses }: DemoNote): ConfigurationError {
  if (addresses === undefined)
    return new ConfigurationError("The demo of this folder is being started already by another process.");
  return new ConfigurationError(`The demo of this folder runs already: ${addresses.ops}`, {
    fix: "Use that one, or stop it first. For a second one, set DATA_DIR to another folder.",
  });
}

/** Where the demo of this data folder answers; undefined when none runs. */
export async function findRunningDemo(dataDir: string): Promise<DemoAddresses | undefined> {
  return (await findNote(demoFolder(dataDir)))?.addresses;
}

/**
 * The configuration for a command beside whatever runs here: with the data folder that holds a database, which is the
 * demo's unless a source is configured and its mirror exists, and with the ports of a running demo. Throws
 * ConfigurationError when there is no database, so that a command that only looks never makes one.
 */
export async function configureHere(config: Config): Promise<Config> {
  const addresses = config.sources.length > 0 ? undefined : await findRunningDemo(config.dataDir);
  const here = { ...config, ...addresses };
  if (config.databaseUrl !== null) return here;
  const demo = demoFolder(config.dataDir);
  const folders = config.sources.length > 0 ? [config.dataDir, demo] : [demo, config.dataDir];
  const dataDir = folders.find(holdsCluster);
  if (dataDir !== undefined) return { ...here, dataDir };
  throw new ConfigurationError(
    `Nothing runs here: there is no database in ${path.resolve(config.dataDir)}, and DATABASE_URL is not set.`,
    {
      fix: "Go to the folder where order-mirror runs, set DATABASE_URL, or start it here: `order-mirror demo` or `order-mirror up`.",
    },
  );
}

function noteFile(folder: string): string {
  return path.join(folder, "demo.json");
}

async function findNote(folder: string): Promise<DemoNote | undefined> {
  const text = await readFile(noteFile(folder), "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  const note = JSON.parse(text) as DemoNote;
  return (await isIdentityAlive(note.process)) ? note : undefined;
}

/** Moved to its place whole, as others may read it at any time. */
async function writeNote(file: string, note: DemoNote): Promise<void> {
  const fresh = `${file}-new`;
  await writeFile(fresh, JSON.stringify(note), { mode: 0o600 });
  await rename(fresh, file);
}

async function readSecrets(folder: string): Promise<DemoSecrets> {
  const file = path.join(folder, "demo-secrets.json");
  const stored = await readFile(file, "utf8").catch(() => undefined);
  if (stored !== undefined) return JSON.parse(stored) as DemoSecrets;
  const makeSecret = () => `whsec_${randomBytes(SECRET_BYTES).toString("base64")}`;
  const secrets = { live: makeSecret(), test: makeSecret() };
  await writeFile(file, JSON.stringify(secrets), { mode: 0o600 });
  return secrets;
}
