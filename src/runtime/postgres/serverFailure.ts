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
  EMFILE: "this process may not open more files",
};
const FIXES: Readonly<Record<string, string>> = {
  ENOSPC: "Free 100 MB there",
  EDQUOT: "Free 100 MB there",
  EMFILE: "Raise the limit (ulimit -n)",
};

/** Why an action on files or a server program failed, as a clause; never empty. */
export function describeServerFailure(error: unknown): string {
  const code = findCode(error);
  const known = code === undefined ? undefined : SYSTEM_REASONS[code];
  if (known !== undefined) return known;
  const lines = readOutput(error);
  const line = lines.findLast((each) => SEVERITY.test(each)) ?? lines.at(-1);
  if (line !== undefined) return line.replace(SEVERITY, "").replace(/\.$/, "");
  return error instanceof Error ? (error.message.split("\n")[0] ?? error.name) : String(error);
}

/** The first half of a fix for that failure; undefined where nothing better than another place is known. */
export function findFix(error: unknown): string | undefined {
  const code = findCode(error);
  return code === undefined ? undefined : FIXES[code];
}

function findCode(error: unknown): string | undefined {
  const output = readOutput(error).join("\n");
  if (output.includes("No space left on device")) return "ENOSPC";
  if (output.includes("Disk quota exceeded")) return "EDQUOT";
  const { code } = error as { code?: unknown };
  return typeof code === "string" ? code : undefined;
}

/** Lines that a program printed: stderr, or stdout when stderr is empty. */
function readOutput(error: unknown): string[] {
  const { stderr, stdout } = error as { stderr?: unknown; stdout?: unknown };
  const text = typeof stderr === "string" && stderr.trim() !== "" ? stderr : stdout;
  if (typeof text !== "string") return [];
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}
