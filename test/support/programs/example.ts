import { spawn } from "node:child_process";

export interface ExampleEnding {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunningExample {
  /** Resolves when stdout matches; rejects with all output when the program ends before. */
  waitFor(pattern: RegExp): Promise<void>;
  readonly ended: Promise<ExampleEnding>;
  stop(): Promise<ExampleEnding>;
}

/** Runs a program of `examples/` with these variables and those needed to find programs. */
export function startExample(
  command: string,
  args: readonly string[],
  { cwd, env }: { cwd: string; env: Readonly<Record<string, string>> },
): RunningExample {
  const { PATH = "", HOME = "" } = process.env;
  const child = spawn(command, args, { cwd, env: { PATH, HOME, ...env } });
  let stdout = "";
  let stderr = "";
  const checks = new Set<() => void>();
  child.stdout.on("data", (chunk: Buffer) => {
    stdout += chunk.toString();
    for (const check of checks) check();
  });
  child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
  const ended = new Promise<ExampleEnding>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, stdout, stderr }));
  });
  return {
    waitFor: (pattern) =>
      new Promise((resolve, reject) => {
        const check = () => {
          if (pattern.test(stdout)) resolve();
        };
        checks.add(check);
        check();
        ended.then(() => reject(new Error(`it ended: ${stdout}${stderr}`)), reject);
      }),
    ended,
    stop() {
      child.kill("SIGTERM");
      return ended;
    },
  };
}
