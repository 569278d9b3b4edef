import { randomUUID } from "node:crypto";
import { readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { ConfigurationError } from "../domain/errors.ts";
import { instantFromMillis, millisFromInstant, type Instant } from "../domain/order/instant.ts";
import type { Config } from "../config/config.ts";
import { openDataFolder } from "../process/dataFolder.ts";
import type { Clock } from "../process/clock.ts";
import { makeLoop } from "../process/loop.ts";
import type { Shutdown } from "../process/shutdown.ts";
import { makeLogSampler } from "../process/telemetry/logSampler.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import type { SignatureRefusal } from "../signature/verifier.ts";

const PRUNE_EVERY_MS = 600_000;
const KEPT_FOR_MS = 86_400_000;
/** Events are a few kilobytes. */
const BODY_BYTES_MAX = 65_536;
const INTERVAL_MS = 1_000;
const LOG_INTERVAL_MS = 60_000;
/**
 * Headers that any client or proxy sends. A request with no others has no signature: it comes from a scanner or from
 * `doctor`.
 */
const USUAL_NAME =
  /^(?:host|connection|keep-alive|content-(?:type|length)|accept(?:-[a-z]+)?|user-agent|sec-[a-z-]+|transfer-encoding|expect|te|via|date|origin|referer|cache-control|pragma|priority|traceparent|tracestate|x-request-id)$/;
/** Headers with the sender's address or its logins elsewhere. */
const PRIVATE_NAME =
  /^(?:cookie|proxy-authorization|forwarded|x-forwarded-.*|x-real-ip|.*(?:client|connecting)-ip)$/;

/** A webhook request whose signature did not verify. */
export interface RefusedRequest {
  readonly sourceId: string;
  /** What was wrong with its signature. */
  readonly reason: SignatureRefusal;
  /** Every value of every header, by its name in lower case. */
  readonly headers: NodeJS.Dict<string[]>;
  /** Path and query. */
  readonly target: string;
  readonly body: Buffer;
}

/** The folder for refused requests of a process with this data folder. */
export const refusedFolder = (dataDir: string): string => path.resolve(dataDir, "refused-requests");

/**
 * Removes all stored requests: any of them may be about a person whose data has to go. Returns how many there were.
 * Rejects with the system's error if the folder may not be changed.
 */
export async function removeRefusedRequests(folder: string): Promise<number> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw error;
  });
  await Promise.all(names.map((name) => rm(path.join(folder, name), { force: true })));
  return names.length;
}

/**
 * Stores the last `limit` refused requests as files in `folder`, for `identify-signature`: at most one per source and
 * second, none with a body of more than 64 KiB, each for at most a day.
 *
 * A body is personal data, and finding the scheme needs every byte of it. So only this process's account may read the
 * files. They are not in the database, which nothing unauthenticated reaches, nor in its backups. @internal
 */
export function makeRefusedRequests(deps: { folder: string; limit: number; clock: Clock; logger: Logger }) {
  const { folder, limit, clock, logger } = deps;
  const isTurnOf = makeLogSampler({ clock, intervalMs: INTERVAL_MS });
  const mayLog = makeLogSampler({ clock, intervalMs: LOG_INTERVAL_MS });
  let isWriting = false;

  /** Removes requests older than a day, and the oldest beyond `limit`. */
  async function prune(): Promise<void> {
    const oldestMs = millisFromInstant(clock.now()) - KEPT_FOR_MS;
    const names = (await readdir(folder)).sort().reverse();
    const gone = names.filter((name, place) => place >= limit || Number.parseInt(name, 10) < oldestMs);
    await Promise.all(gone.map((name) => rm(path.join(folder, name), { force: true })));
  }

  async function write(request: RefusedRequest): Promise<void> {
    // The time comes first, so that sorting by name sorts by time.
    const file = path.join(folder, `${Math.floor(millisFromInstant(clock.now()))}-${randomUUID()}`);
    await writeFile(file, describe(request), { mode: 0o600, flag: "wx" });
    // Written elsewhere and renamed, because other processes may read it at any time.
    await rename(file, `${file}.json`);
    await prune();
  }

  return {
    prune,
    /** Stores a request, unless it cannot contain a signature; neither throws nor waits. */
    keep: (request: RefusedRequest): void => {
      if (isWriting || request.body.length > BODY_BYTES_MAX || !maySign(request)) return;
      if (isTurnOf(request.sourceId) === undefined) return;
      isWriting = true;
      void write(request)
        .catch((error: unknown) => {
          if (mayLog("failed") !== undefined)
            logger.warn({ err: error }, "a refused request could not be stored");
        })
        .finally(() => (isWriting = false));
    },
  };
}

/**
 * Keeps refused webhook requests for `identify-signature` while CAPTURE_REFUSED is set; without it removes what was kept, and
 * returns undefined. Throws ConfigurationError when the folder cannot be written to.
 */
export async function captureRefused(deps: {
  readonly config: Pick<Config, "dataDir" | "captureRefused">;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly shutdown: Pick<Shutdown, "onShutdown">;
}): Promise<((request: RefusedRequest) => void) | undefined> {
  const { config, clock, logger, shutdown } = deps;
  const folder = refusedFolder(config.dataDir);
  if (config.captureRefused === 0) {
    await rm(folder, { recursive: true, force: true });
    return undefined;
  }
  await openDataFolder(folder);
  const refused = makeRefusedRequests({ folder, limit: config.captureRefused, clock, logger });
  const onError = (error: unknown) => logger.warn({ err: error }, "refused requests could not be removed");
  const loop = makeLoop({ run: refused.prune, everyMs: PRUNE_EVERY_MS, onError, clock });
  loop.start();
  shutdown.onShutdown("refused requests", loop.stop);
  logger.warn(
    { folder, limit: config.captureRefused },
    "refused webhook requests are kept, bodies and all; unset CAPTURE_REFUSED when the scheme is found",
  );
  return refused.keep;
}

function maySign({ headers, target }: RefusedRequest): boolean {
  const names = Object.keys(headers).filter((name) => !PRIVATE_NAME.test(name));
  return target.includes("?") || names.some((name) => !USUAL_NAME.test(name));
}

interface StoredRequest extends Pick<RefusedRequest, "reason" | "headers" | "target"> {
  readonly source: string;
  readonly bodyBase64: string;
}

function describe({ sourceId, reason, headers, target, body }: RefusedRequest): string {
  const shown = Object.entries(headers).filter(([name]) => !PRIVATE_NAME.test(name));
  return JSON.stringify({
    source: sourceId,
    reason,
    target,
    headers: Object.fromEntries(shown),
    bodyBase64: body.toString("base64"),
  } satisfies StoredRequest);
}

/**
 * The requests that are kept in `folder`, newest first; none if nothing was kept. Throws ConfigurationError if this account may
 * not read them.
 */
export async function readRefusedRequests(
  folder: string,
): Promise<(RefusedRequest & { readonly refusedAt: Instant })[]> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw new ConfigurationError(`${folder} cannot be read (${error.code ?? error.message}).`, {
      cause: error,
      fix: "Run this as the account of the web process, or as root.",
    });
  });
  const complete = names.filter((name) => name.endsWith(".json"));
  const kept = complete.toSorted().map(async (name) => {
    // Web may have removed it meanwhile.
    const text = await readFile(path.join(folder, name), "utf8").catch(() => undefined);
    if (text === undefined) return [];
    const { source: sourceId, bodyBase64, ...request } = JSON.parse(text) as StoredRequest;
    const refusedAt = instantFromMillis(Number.parseInt(name, 10));
    return [{ ...request, sourceId, refusedAt, body: Buffer.from(bodyBase64, "base64") }];
  });
  return (await Promise.all(kept)).flat().toReversed();
}
