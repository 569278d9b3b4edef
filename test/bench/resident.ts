import { readRssBytes } from "../support/programs/resident.ts";

const BYTES_PER_MEGABYTE = 1_048_576;

/** Current resident memory of a process. Rejects when there is no such process. */
export async function readMegabytes(pid: number): Promise<number> {
  return (await readRssBytes(pid)) / BYTES_PER_MEGABYTE;
}
