/** True if the system refused to write because the disk, or the account's share of it, is full. */
export function isFullDisk(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return code === "ENOSPC" || code === "EDQUOT";
}
