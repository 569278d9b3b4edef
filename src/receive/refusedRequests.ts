import { constants, open, readdir, readFile, rm } from "node:fs/promises";
import path from "node:path";
import { ConfigurationError } from "../domain/errors.ts";
import { tryParseJson } from "../domain/parseJson.ts";
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
  /** The fault of its signature. */
  readonly reason: SignatureRefusal;
  /** Every value of every header, by its name in lower case. */
  readonly headers: NodeJS.Dict<string[]>;
  /** Path and query. */
  readonly target: string;
  readonly body: Buffer;
}

/** The folder for refused requests of a process with this data folder: a file per source. */
export const refusedFolder = (dataDir: string): string => path.resolve(dataDir, "refused-requests");

/**
 * Removes all stored requests: any of them may be about a person whose data has to go. Returns of how many sources
 * there were some. Rejects with the system's error if the folder may not be changed.
 */
export async function removeRefusedRequests(folder: string): Promise<number> {
  const files = await listFiles(folder);
  await Promise.all(files.map((file) => rm(file, { force: true })));
  return files.length;
}

/** Lists the files of the sources; none if `folder` does not exist. Rejects with the system's error. */
async function listFiles(folder: string): Promise<string[]> {
  try {
    return (await readdir(folder)).map((name) => path.join(folder, name));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

/**
 * Stores the last `limit` refused requests of each source in a file in `folder`, for `identify-signature`: at most one
 * per second, none with a body of more than 64 KiB, each for at most a day.
 *
 * A body is personal data, and finding the scheme needs every byte of it. So only this process's account may read the
 * files. They are not in the database, which nothing unauthenticated reaches, nor in its backups. @internal
 */
export function makeRefusedRequests(deps: { folder: string; limit: number; clock: Clock; logger: Logger }) {
  const { folder, limit, clock, logger } = deps;
  const isTurnOf = makeLogSampler({ clock, intervalMs: INTERVAL_MS });
  const mayLog = makeLogSampler({ clock, intervalMs: LOG_INTERVAL_MS });
  let isWriting = false;

  /** Adds requests to those of a source, and removes what is older than a day, and the oldest beyond `limit`. */
  async function rewrite(file: string, added: readonly StoredRequest[]): Promise<void> {
    const oldestMs = millisFromInstant(clock.now()) - KEPT_FOR_MS;
    // In place, not by a renamed copy: a copy would bring back what `erase` has removed meanwhile.
    const handle = await open(file, constants.O_RDWR | constants.O_CREAT, 0o600);
    try {
      const kept = [...parseLines(await handle.readFile("utf8")), ...added];
      const lines = kept.filter(({ refusedAtMs }) => refusedAtMs >= oldestMs).slice(-limit);
      await handle.truncate();
      await handle.write(lines.map((request) => `${JSON.stringify(request)}\n`).join(""), 0);
    } finally {
      await handle.close();
    }
  }

  return {
    prune: async (): Promise<void> => {
      for (const file of await listFiles(folder)) await rewrite(file, []);
    },
    /** Stores a request, unless it cannot contain a signature; neither throws nor waits. */
    keep: (request: RefusedRequest): void => {
      if (isWriting || request.body.length > BODY_BYTES_MAX || !maySign(request)) return;
      if (isTurnOf(request.sourceId) === undefined) return;
      isWriting = true;
      const stored = describe(request, millisFromInstant(clock.now()));
      void rewrite(path.join(folder, `${request.sourceId}.ndjson`), [stored])
        .catch((error: unknown) => {
          if (mayLog("failed") !== undefined)
            logger.warn({ err: error }, "a refused request could not be stored");
        })
        .finally(() => (isWriting = false));
    },
  };
}

/**
 * Keeps refused webhook requests for `identify-signature` while CAPTURE_REFUSED is set; without it removes what was
 * kept, and returns undefined. Throws ConfigurationError when the folder cannot be written to.
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
  readonly refusedAtMs: number;
  readonly bodyBase64: string;
}

function describe({ reason, headers, target, body }: RefusedRequest, refusedAtMs: number): StoredRequest {
  const shown = Object.entries(headers).filter(([name]) => !PRIVATE_NAME.test(name));
  return {
    refusedAtMs,
    reason,
    target,
    headers: Object.fromEntries(shown),
    bodyBase64: body.toString("base64"),
  };
}

/** Reads the lines of a file, oldest first. Skips a line that web is still writing. */
function parseLines(text: string): StoredRequest[] {
  return text.split("\n").flatMap((line) => (tryParseJson(line) as StoredRequest | undefined) ?? []);
}

/**
 * Reads the requests that are kept in `folder`, newest first; none if nothing was kept. Throws ConfigurationError if
 * this account may not read them.
 */
export async function readRefusedRequests(
  folder: string,
): Promise<(RefusedRequest & { readonly refusedAt: Instant })[]> {
  const read = async (file: string) =>
    parseLines(await readFile(file, "utf8")).map(({ refusedAtMs, bodyBase64, ...request }) => ({
      ...request,
      sourceId: path.parse(file).name,
      refusedAt: instantFromMillis(refusedAtMs),
      body: Buffer.from(bodyBase64, "base64"),
    }));
  const kept = await listFiles(folder)
    .then((files) => Promise.all(files.map(read)))
    .catch((error: NodeJS.ErrnoException) => {
      throw new ConfigurationError(`${folder} cannot be read (${error.code ?? error.message}).`, {
        cause: error,
        fix: "Run this as the account of the web process, or as root.",
      });
    });
  return kept.flat().sort((a, b) => Number(b.refusedAt - a.refusedAt));
}
