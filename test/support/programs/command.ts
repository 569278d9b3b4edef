import { spawn } from "node:child_process";
import { findProgram, ROOT } from "./program.ts";

export interface CommandResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command of the built program; sends Ctrl-C once `interruptWhen` resolves. */
export function runCommand(
  args: readonly string[],
  {
    databaseUrl,
    interruptWhen,
    env = {},
  }: { databaseUrl: string; interruptWhen?: () => Promise<unknown>; env?: NodeJS.Dict<string> },
): Promise<CommandResult> {
  const child = spawn(process.execPath, [findProgram(), ...args], {
    cwd: ROOT,
    env: { PATH: process.env["PATH"], DATABASE_URL: databaseUrl, NO_COLOR: "1", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  void interruptWhen?.().then(() => child.kill("SIGINT"));
  return new Promise((resolve) => {
    child.on("close", (code) => resolve({ code, stdout, stderr }));
  });
}
