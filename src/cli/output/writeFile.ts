import { open, rename, rm } from "node:fs/promises";
import path from "node:path";
import type { Writable } from "node:stream";
import { finished } from "node:stream/promises";
import { OrderMirrorError, UnavailableError } from "../../domain/errors.ts";
import { describeFullDisk, isFullDisk } from "../../runtime/dataFolder.ts";

class ExportFailedError extends OrderMirrorError {
  override readonly name = "ExportFailedError";
  override readonly retry = "never";
}

/** Writes to a temporary file and renames it at the end, so that an incomplete file is never mistaken for the whole. */
export async function writeFile<Result>(
  file: string,
  write: (out: Writable) => Promise<Result>,
): Promise<Result> {
  const part = `${file}.part`;
  try {
    const handle = await open(part, "w");
    const out = handle.createWriteStream();
    // The writer and finished() report errors; without a listener, an error event would end the process.
    out.on("error", () => undefined);
    const result = await write(out).finally(() => out.end());
    await finished(out);
    await rename(part, file);
    return result;
  } catch (error) {
    await rm(part, { force: true });
    if (isFullDisk(error)) {
      const folder = path.dirname(path.resolve(file));
      throw new UnavailableError(describeFullDisk(file, folder), {
        cause: error,
        fix: "Free space there or name a file on another disk, then run the command again.",
      });
    }
    const { code, syscall } = error as NodeJS.ErrnoException;
    if (syscall === undefined || code === undefined || error instanceof OrderMirrorError) throw error;
    throw new ExportFailedError(`${file} cannot be written (${code}).`, { cause: error });
  }
}
