import { openAsBlob } from "node:fs";
import { mkdir, mkdtemp, open, readdir, rename, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { AwsV4Signer } from "aws4fetch";
import { OrderMirrorError } from "../domain/errors.ts";
import type { DailyFiles } from "../runtime/config/dailyFilesVariables.ts";
import { describeFullDisk, isFullDisk } from "../runtime/fullDisk.ts";

/** A file could not be stored; the message has no secret. */
class FileNotStoredError extends OrderMirrorError {
  override readonly name = "FileNotStoredError";
  override readonly retry = "later";
}

/** Where daily files are kept. */
export interface FileStore {
  /**
   * Calls `write` with the path of a new file, and then shows the whole file under `name`, in place of any former one.
   * Nothing is shown if `write` rejects. Rejects with the error of `write`, or FileNotStoredError.
   */
  put<Written extends { readonly sha256: string }>(
    name: string,
    write: (path: string) => Promise<Written>,
    signal: AbortSignal,
  ): Promise<Written>;
}

/** An upload of a day of a large business takes minutes on a slow line. */
const UPLOAD_MS = 900_000;
/** A temporary file that is older than this was left behind by a process that was killed. */
const LEFT_BEHIND_MS = 3_600_000;

export function makeFileStore({ place, bucket }: DailyFiles): FileStore {
  return bucket === null ? makeFolder(place) : makeBucket(place, bucket);
}

/** The file is written next to its final place, and then renamed. */
function makeFolder(root: string): FileStore {
  return {
    async put(name, write) {
      const target = path.join(root, name);
      const folder = path.dirname(target);
      const draft = path.join(folder, `.${path.basename(target)}.${process.pid}.${Date.now()}.part`);
      const inFolder = async <Result>(work: () => Promise<Result>) => {
        try {
          return await work();
        } catch (error) {
          if (isFullDisk(error)) throw explainFullDisk(target, folder, error);
          const { code, syscall } = error as NodeJS.ErrnoException;
          if (syscall === undefined) throw error;
          throw new FileNotStoredError(`${target} cannot be written (${code}).`, {
            cause: error,
            fix: "Let the poller's account write to the folder of DAILY_FILES.",
          });
        }
      };
      return inFolder(async () => {
        await mkdir(folder, { recursive: true });
        await removeLeftBehind(folder);
        try {
          const written = await write(draft);
          await rename(draft, target);
          await syncFolder(folder);
          return written;
        } catch (error) {
          await rm(draft, { force: true });
          throw error;
        }
      });
    },
  };
}

function explainFullDisk(target: string, folder: string, cause: unknown): FileNotStoredError {
  return new FileNotStoredError(describeFullDisk(target, folder), {
    cause,
    fix: "Free space there. The poller tries again every minute.",
  });
}

async function removeLeftBehind(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!/^\..*\.parquet\.\d+\.\d+\.part$/.test(name)) continue;
    const file = path.join(folder, name);
    const { mtimeMs } = await stat(file);
    if (Date.now() - mtimeMs > LEFT_BEHIND_MS) await rm(file, { force: true });
  }
}

/** After it, the new name survives a power cut. */
async function syncFolder(folder: string): Promise<void> {
  if (process.platform === "win32") return;
  const handle = await open(folder);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** The whole file is sent in one PUT, which replaces the object at once. */
function makeBucket(address: string, keys: NonNullable<DailyFiles["bucket"]>): FileStore {
  return {
    async put(name, write, signal) {
      const url = `${address.replace(/\/$/, "")}/${name}`;
      try {
        const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-"));
        try {
          const file = path.join(folder, "day.parquet");
          const written = await write(file);
          await putObject({ url, file, sha256: written.sha256, keys, signal });
          return written;
        } finally {
          await rm(folder, { recursive: true, force: true });
        }
      } catch (error) {
        throw isFullDisk(error) ? explainFullDisk(url, tmpdir(), error) : error;
      }
    },
  };
}

async function putObject(upload: {
  readonly url: string;
  readonly file: string;
  readonly sha256: string;
  readonly keys: NonNullable<DailyFiles["bucket"]>;
  readonly signal: AbortSignal;
}): Promise<void> {
  const { url, file, sha256, keys, signal } = upload;
  const headers = { "content-type": "application/vnd.apache.parquet", "x-amz-content-sha256": sha256 };
  const signed = await new AwsV4Signer({ ...keys, method: "PUT", url, headers, service: "s3" }).sign();
  const fail = (text: string, cause?: unknown) =>
    new FileNotStoredError(`${url} cannot be written: ${text}.`, {
      cause,
      fix: "Check DAILY_FILES, DAILY_FILES_REGION and the access key, which needs the right to put objects.",
    });
  let response: Response;
  try {
    const timeout = AbortSignal.timeout(UPLOAD_MS);
    response = await fetch(signed.url, {
      method: "PUT",
      headers: signed.headers,
      body: await openAsBlob(file),
      redirect: "manual",
      signal: AbortSignal.any([signal, timeout]),
    });
  } catch (error) {
    signal.throwIfAborted();
    const { cause } = error as { cause?: { code?: string } };
    throw fail(`no answer${cause?.code === undefined ? "" : ` (${cause.code})`}`, error);
  }
  const text = await response.text();
  if (response.ok) return;
  // Only the code: the text of a refusal repeats what was signed.
  const code = /<Code>(\w{1,64})<\/Code>/.exec(text)?.[1];
  throw fail(`the store answers ${response.status}${code === undefined ? "" : ` ${code}`}`);
}
