import { randomUUID } from "node:crypto";
import { readdir, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { millisFromInstant } from "../../domain/order/instant.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import { makeLogSampler } from "../../runtime/telemetry/logSampler.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";

const KEPT_FOR_MS = 86_400_000;
/** Events are a few kilobytes. */
const BODY_BYTES_MAX = 65_536;
const INTERVAL_MS = 1_000;
const LOG_INTERVAL_MS = 60_000;
/** What any client or proxy sends. A request with nothing else holds no signature: a scanner's, or the one of `doctor`. */
const USUAL_NAME =
  /^(?:host|connection|keep-alive|content-(?:type|length)|accept(?:-[a-z]+)?|user-agent|sec-[a-z-]+|transfer-encoding|expect|te|via|date|origin|referer|cache-control|pragma|priority|traceparent|tracestate|x-request-id)$/;
/** Who sent it, and how he logs in elsewhere. */
const PRIVATE_NAME =
  /^(?:cookie|proxy-authorization|forwarded|x-forwarded-.*|x-real-ip|.*(?:client|connecting)-ip)$/;

/** A webhook request whose signature did not verify. */
export interface RefusedRequest {
  readonly sourceId: string;
  /** Every value of every header, by its name in lower case. */
  readonly headers: NodeJS.Dict<string[]>;
  /** Path and query. */
  readonly target: string;
  readonly body: Buffer;
}

/** Where a process with this data folder keeps refused requests. */
export const refusedFolder = (dataDir: string): string => path.resolve(dataDir, "refused-requests");

export interface RefusedRequests {
  /** Keeps a request, unless nothing in it can be a signature; neither throws nor waits. */
  readonly keep: (request: RefusedRequest) => void;
  /** Removes what is older than a day, and the oldest beyond `limit`. */
  readonly prune: () => Promise<void>;
}

/**
 * Keeps the last `limit` refused requests as files of `folder`, for `identify-signature`: at most one of each source in a
 * second, none with a body of more than 64 KiB, each for a day at most.
 *
 * A body is personal data, and whoever looks for the scheme needs each byte of it. So only the account of this process may
 * read the files. They are not in the database, which nothing unauthenticated reaches, nor in its backups.
 */
export function makeRefusedRequests(deps: {
  folder: string;
  limit: number;
  clock: Clock;
  logger: Logger;
}): RefusedRequests {
  const { folder, limit, clock, logger } = deps;
  const isTurnOf = makeLogSampler({ clock, intervalMs: INTERVAL_MS });
  const mayLog = makeLogSampler({ clock, intervalMs: LOG_INTERVAL_MS });
  let isWriting = false;

  async function prune(): Promise<void> {
    const oldestMs = millisFromInstant(clock.now()) - KEPT_FOR_MS;
    const names = (await readdir(folder)).sort().reverse();
    const gone = names.filter((name, place) => place >= limit || Number.parseInt(name, 10) < oldestMs);
    await Promise.all(gone.map((name) => rm(path.join(folder, name), { force: true })));
  }

  async function write(request: RefusedRequest): Promise<void> {
    // The time comes first, so that the order of the names is that of the requests.
    const file = path.join(folder, `${Math.floor(millisFromInstant(clock.now()))}-${randomUUID()}`);
    await writeFile(file, describe(request), { mode: 0o600, flag: "wx" });
    // Moved to its place whole, as others may read it at any time.
    await rename(file, `${file}.json`);
    await prune();
  }

  return {
    prune,
    keep(request) {
      if (isWriting || request.body.length > BODY_BYTES_MAX || !maySign(request)) return;
      if (isTurnOf(request.sourceId) === undefined) return;
      isWriting = true;
      void write(request)
        .catch((error: unknown) => {
          if (mayLog("failed") !== undefined)
            logger.warn({ err: error }, "a refused request could not be kept");
        })
        .finally(() => (isWriting = false));
    },
  };
}

function maySign({ headers, target }: RefusedRequest): boolean {
  const names = Object.keys(headers).filter((name) => !PRIVATE_NAME.test(name));
  return target.includes("?") || names.some((name) => !USUAL_NAME.test(name));
}

function describe({ sourceId, headers, target, body }: RefusedRequest): string {
  const shown = Object.entries(headers).filter(([name]) => !PRIVATE_NAME.test(name));
  return JSON.stringify({
    source: sourceId,
    target,
    headers: Object.fromEntries(shown),
    bodyBase64: body.toString("base64"),
  });
}
