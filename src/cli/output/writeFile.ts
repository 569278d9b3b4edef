import { open, rename, rm } from "node:fs/promises";
import type { Writable } from "node:stream";
import { finished } from "node:stream/promises";
import { OrderMirrorError } from "../../domain/errors.ts";

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
    const { code, syscall } = error as NodeJS.ErrnoException;
    if (syscall === undefined || code === undefined || error instanceof OrderMirrorError) throw error;
    throw new ExportFailedError(`${file} cannot be written (${code}).`, { cause: error });
  }
}
