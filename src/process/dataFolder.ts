import { constants } from "node:fs";
import { access, mkdir } from "node:fs/promises";
import path from "node:path";
import { ConfigurationError } from "../domain/errors.ts";

const SEVERITY = /^.*?(?:FATAL|PANIC|ERROR|error):\s*/;
/** The system's error, as the end of a sentence about a file or folder. */
const SYSTEM_REASONS: Readonly<Record<string, string>> = {
  ENOSPC: "the disk is full",
  EDQUOT: "the account's share of the disk is used up",
  EROFS: "the file system is read-only",
  EACCES: "this account has no right to write there",
  EPERM: "the system forbids it to this account",
  EEXIST: "a file stands in its place",
  ENOTDIR: "a file stands in its place",
};
const FULL = ["ENOSPC", "EDQUOT"];

/** The absolute path, created if missing, for this account only. Throws ConfigurationError if it is unusable. */
export async function openDataFolder(dataDir: string): Promise<string> {
  const root = path.resolve(dataDir);
  try {
    // On a read-only file system, Node names the cause only when it does not create parent folders, too.
    await mkdir(root, { recursive: true, mode: 0o700 }).catch(() => mkdir(root));
    await access(root, constants.R_OK | constants.W_OK | constants.X_OK);
    return root;
  } catch (error) {
    throw new ConfigurationError(
      `DATA_DIR ${root} cannot be created or written to: ${describeFailure(error)}.`,
      { cause: error, fix: "Point DATA_DIR at a folder that this account may write to." },
    );
  }
}

/** True if the system refused to write because the disk, or the account's share of it, is full. */
export function isFullDisk(error: unknown): boolean {
  return FULL.includes(String((error as { code?: unknown } | null | undefined)?.code));
}

/** Why an action on files or a server program failed, as a clause; never empty. */
export function describeFailure(error: unknown): string {
  const known = SYSTEM_REASONS[findCode(error)];
  if (known !== undefined) return known;
  const lines = readOutput(error);
  const line = lines.findLast((each) => SEVERITY.test(each)) ?? lines.at(-1);
  if (line !== undefined) return line.replace(SEVERITY, "").replace(/\.$/, "");
  return error instanceof Error ? (error.message.split("\n")[0] ?? error.name) : String(error);
}

/** The first half of a fix for that failure; undefined where nothing better than another place is known. */
export function findFix(error: unknown): string | undefined {
  return FULL.includes(findCode(error)) ? "Free 100 MB there" : undefined;
}

function findCode(error: unknown): string {
  const output = readOutput(error).join("\n");
  if (output.includes("No space left on device")) return "ENOSPC";
  if (output.includes("Disk quota exceeded")) return "EDQUOT";
  return String((error as { code?: unknown }).code);
}

/** Lines that a program printed: stderr, or stdout when stderr is empty. */
function readOutput(error: unknown): string[] {
  const { stderr = "", stdout = "" } = error as { stderr?: string; stdout?: string };
  const lines = (stderr.trim() === "" ? stdout : stderr).split("\n").map((line) => line.trim());
  return lines.filter((line) => line !== "");
}
