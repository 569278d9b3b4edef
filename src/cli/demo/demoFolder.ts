import { readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { ConfigurationError } from "../../domain/errors.ts";
import type { Config } from "../../config/config.ts";
import { openDataFolder } from "../../process/dataFolder.ts";
import { identifyProcess, isIdentityAlive } from "../../process/processLock.ts";
import { holdsCluster } from "../../postgres/embeddedPostgres.ts";
import { printNotice } from "../output/terminal.ts";

/** The addresses of a running demo. */
export interface DemoAddresses {
  readonly port: number;
  readonly webhookPort: number | null;
  readonly sandboxPort: number;
  readonly ops: string;
}

interface DemoNote {
  /** The demo's process, as identifyProcess names it. */
  readonly process: string;
  readonly addresses: DemoAddresses;
}

/** The demo uses its own folder, so that its orders never end up in a mirror of real ones. */
function demoFolder(dataDir: string): string {
  return path.join(dataDir, "demo");
}

/**
 * The demo's folder below `dataDir`, created if necessary. Throws ConfigurationError if it is unusable or a demo
 * already runs there. Of two that start at once, the sandbox refuses the second: it locks its database.
 */
export async function enterDemoFolder(dataDir: string): Promise<string> {
  const folder = await openDataFolder(demoFolder(dataDir));
  const running = await findRunningDemo(dataDir);
  if (running === undefined) return folder;
  throw new ConfigurationError(`The demo of this folder is already running: ${running.ops}`, {
    fix: "Use it, or stop it first. For a second demo, set DATA_DIR to another folder.",
  });
}

/** Tells other commands the addresses of the demo in `folder`. Returns what takes that back. */
export async function announceDemo(folder: string, addresses: DemoAddresses): Promise<() => Promise<void>> {
  const file = noteFile(folder);
  const note: DemoNote = { process: await identifyProcess(), addresses };
  // Written elsewhere and renamed, because other processes may read it at any time.
  await writeFile(`${file}-new`, JSON.stringify(note), { mode: 0o600 });
  await rename(`${file}-new`, file);
  return () => rm(file, { force: true });
}

/** The addresses of the demo of this data folder; undefined if none is running. */
export async function findRunningDemo(dataDir: string): Promise<DemoAddresses | undefined> {
  const text = await readFile(noteFile(demoFolder(dataDir)), "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  const note = JSON.parse(text) as DemoNote;
  return (await isIdentityAlive(note.process)) ? note.addresses : undefined;
}

/** Says what takes so long before anything else is printed: the first start of an embedded Postgres, or any other. */
export function announceSetUp({ databaseUrl, databaseDirectUrl, dataDir }: Config): void {
  if (databaseUrl !== null || databaseDirectUrl !== null) return;
  const place = path.resolve(dataDir);
  printNotice(
    holdsCluster(dataDir)
      ? `Starting the Postgres in ${place} …`
      : `Setting up a Postgres in ${place}, and the tables in it …`,
  );
}

/**
 * The configuration for a command that works on a local installation: the data folder that holds a database (the
 * demo's, unless a source is configured and its mirror exists) and the ports of a running demo. Throws
 * ConfigurationError if there is no database, so that a read-only command never creates one.
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
    `Nothing runs here: ${path.resolve(config.dataDir)} has no database, and DATABASE_URL is not set.`,
    {
      fix: "Go to the folder where order-mirror runs, set DATABASE_URL, or start it here: `order-mirror demo` or `order-mirror up`.",
    },
  );
}

function noteFile(folder: string): string {
  return path.join(folder, "demo.json");
}
