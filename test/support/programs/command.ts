import { vi } from "vitest";
import { reportFailure } from "../../../src/cli/output/terminal.ts";
import { makeProgram } from "../../../src/cli/program.ts";

export interface CommandResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Variables of the machine that a command sees, without those of the product. */
const MACHINE = { PATH: process.env["PATH"], NO_COLOR: "1" };

/**
 * Runs a command as src/cli/main.ts does, in this process: starting one for each takes longer than most commands. One at
 * a time, and none that only a signal ends.
 */
export async function runCommand(
  args: readonly string[],
  { databaseUrl = "", env = {} }: { databaseUrl?: string; env?: NodeJS.Dict<string> },
): Promise<CommandResult> {
  let stdout = "";
  let stderr = "";
  const out = vi
    .spyOn(process.stdout, "write")
    .mockImplementation((text) => ((stdout += String(text)), true));
  const err = vi
    .spyOn(process.stderr, "write")
    .mockImplementation((text) => ((stderr += String(text)), true));
  const own = { ...process.env };
  replaceEnvironment({ ...MACHINE, DATABASE_URL: databaseUrl, ...env });
  try {
    const code = await (await makeProgram(args[0])).parseAsync(["node", "order-mirror", ...args]).then(
      () => Number(process.exitCode ?? 0),
      (error: unknown) => reportFailure(error, { verbose: false, json: args.includes("--json") }),
    );
    return { code, stdout, stderr };
  } finally {
    process.exitCode = undefined;
    replaceEnvironment(own);
    out.mockRestore();
    err.mockRestore();
  }
}

/** What the program reads stays the same object. */
function replaceEnvironment(env: NodeJS.Dict<string>): void {
  for (const name of Object.keys(process.env)) if (!(name in env)) delete process.env[name];
  Object.assign(process.env, env);
}
