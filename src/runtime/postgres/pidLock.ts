import { open, readFile, rename, rm, stat } from "node:fs/promises";
import { OrderMirrorError, UnavailableError } from "../../domain/errors.ts";
import { millisFromInstant } from "../../domain/order/instant.ts";
import { systemClock } from "../lifecycle/clock.ts";
import { identifyProcess, isIdentityAlive } from "./processIdentity.ts";
import { describeServerFailure, findFix } from "./serverFailure.ts";

const RETRY_MS = 50;
const WAIT_MAX_MS = 90_000;
/** A lock file without a name is being written at this moment, or its writer was killed while writing it. */
const NAMELESS_MAX_MS = 2_000;
/** Longer than another waiter needs between reading a dead holder's name and removing the lock. */
const SETTLE_MS = 25;

/** Nobody can take the lock now, because its file cannot be written: the disk is full, for example. */
export class LockUnwritableError extends OrderMirrorError {
  override readonly name = "LockUnwritableError";
  override readonly retry = "later";
}

/**
 * Runs `work` while no other process or call runs its own under the same file. A lock whose holder was killed is taken
 * over. Throws UnavailableError if the holder does not release it within 90 s, and LockUnwritableError.
 */
export async function withPidLock<Result>(file: string, work: () => Promise<Result>): Promise<Result> {
  const identity = await identifyProcess();
  for (let waitedMs = 0; !(await acquire(file, identity)); waitedMs += RETRY_MS) {
    if (waitedMs >= WAIT_MAX_MS) {
      throw new UnavailableError(`Another process holds ${file} and does not let go.`, {
        fix: "End that process, whose number the file holds, or remove the file if there is none.",
      });
    }
    await systemClock.sleep(RETRY_MS);
  }
  try {
    return await work();
  } finally {
    await rm(file, { force: true });
  }
}

async function acquire(file: string, identity: string): Promise<boolean> {
  if (await create(file, identity)) return true;
  const holder = await readHolder(file);
  if (holder === undefined || (await isIdentityAlive(holder))) return false;
  const stale = `${file}-stale-${process.pid}`;
  await rename(file, stale).catch(() => undefined);
  await rm(stale, { force: true });
  if (!(await create(file, identity))) return false;
  // Another waiter may have found the same dead holder, and then have moved our lock away instead of the dead one's.
  await systemClock.sleep(SETTLE_MS);
  return (await readHolder(file)) === identity;
}

async function create(file: string, identity: string): Promise<boolean> {
  try {
    const handle = await open(file, "wx", 0o600);
    try {
      await handle.writeFile(identity);
    } catch (error) {
      // Without a name it would hold up the next caller.
      await rm(file, { force: true });
      throw error;
    } finally {
      await handle.close();
    }
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw new LockUnwritableError(`${file} cannot be written: ${describeServerFailure(error)}.`, {
      cause: error,
      fix: `${findFix(error) ?? "Let this account write there"}, then try again.`,
    });
  }
}

/** The holder of the lock; "" if it can never be known; undefined if it is not known yet, or nobody holds it. */
async function readHolder(file: string): Promise<string | undefined> {
  try {
    const holder = await readFile(file, "utf8");
    if (holder !== "") return holder;
    const { mtimeMs } = await stat(file);
    return millisFromInstant(systemClock.now()) - mtimeMs > NAMELESS_MAX_MS ? "" : undefined;
  } catch {
    return undefined;
  }
}
