import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { ConfigurationError } from "../../domain/errors.ts";
import { refusedFolder } from "../../receive/refusedRequests.ts";
import type { CapturedRequest } from "../../signature/identify.ts";
import { parseCapturedRequest } from "./capturedRequest.ts";

/** What web has kept of one source's refused requests, newest first; at least one. */
export interface KeptRequests {
  readonly sourceId: string;
  readonly requests: readonly CapturedRequest[];
}

/**
 * Reads what CAPTURE_REFUSED has web keep under `dataDir`, of the named source or of the only one. Throws ConfigurationError
 * when nothing is kept, or when it is not clear which source is meant.
 */
export async function readKeptRequests(dataDir: string, named: string | undefined): Promise<KeptRequests> {
  const folder = refusedFolder(dataDir);
  const kept = await readFolder(folder);
  const sourceIds = named === undefined ? [...new Set(kept.map(({ sourceId }) => sourceId))] : [named];
  const [sourceId = "", ...others] = sourceIds;
  if (others.length > 0) {
    throw new ConfigurationError("It is not clear which source is meant.", {
      fix: `Say it with --source. There are: ${sourceIds.sort().join(", ")}.`,
    });
  }
  const requests = kept.filter((one) => one.sourceId === sourceId).map(({ request }) => request);
  if (requests.length > 0) return { sourceId, requests };
  throw new ConfigurationError(
    `No refused request${named === undefined ? "" : ` of ${named}`} is kept in ${folder}.`,
    {
      fix: "Set CAPTURE_REFUSED=10 where web runs, restart it, wait for the next event, and run this with the same DATA_DIR. Or name a file with a captured request; - reads one from stdin.",
    },
  );
}

async function readFolder(folder: string): Promise<{ sourceId: string; request: CapturedRequest }[]> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw new ConfigurationError(`${folder} cannot be read (${error.code ?? error.message}).`, {
      cause: error,
      fix: "Run this as the account of the web process, or as root.",
    });
  });
  const newestFirst = names
    .filter((name) => name.endsWith(".json"))
    .toSorted()
    .toReversed();
  const kept = newestFirst.map(async (name) => {
    // Web may have removed it meanwhile.
    const bytes = await readFile(path.join(folder, name)).catch(() => undefined);
    if (bytes === undefined) return [];
    const { source } = JSON.parse(bytes.toString("utf8")) as { source: string };
    return [{ sourceId: source, request: parseCapturedRequest(bytes) }];
  });
  return (await Promise.all(kept)).flat();
}
