/** True if the system refused to write because the disk, or the account's share of it, is full. */
export function isFullDisk(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return code === "ENOSPC" || code === "EDQUOT";
}

/** The sentence for a file that could not be written because the disk of its folder is full. */
export function describeFullDisk(file: string, folder: string): string {
  return `${file} cannot be written: the disk of ${folder} is full.`;
}
