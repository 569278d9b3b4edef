import { fork } from "node:child_process";
import path from "node:path";

/** A process of the bench that answers one order at a time. */
export interface Child {
  readonly pid: number;
  /** What the process says of itself once it is ready. */
  readonly greeting: unknown;
  readonly ask: <Answer>(order: object) => Promise<Answer>;
  readonly stop: () => Promise<void>;
}

/** Starts a script of this folder as a process of its own; resolves when it has sent its first message. */
export async function startChild(
  script: string,
  { args = [], env = {} }: { args?: readonly string[]; env?: Record<string, string> } = {},
): Promise<Child> {
  const { PATH = "", HOME = "", TMPDIR = "/tmp" } = process.env;
  const child = fork(path.join(import.meta.dirname, script), [...args], {
    // tsx wraps every inner function to keep its name, which costs a receiver a quarter of its speed; this leaves the
    // code as the build does.
    execArgv: ["--import", "ts-blank-space/register"],
    // None of the machine's own settings.
    env: { PATH, HOME, TMPDIR, ...env },
    serialization: "advanced",
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const next = () =>
    Promise.race([
      new Promise<unknown>((resolve) => child.once("message", resolve)),
      ended.then(() => Promise.reject(new Error(`${script} ended`))),
    ]);
  const greeting = await next();
  return {
    pid: child.pid ?? 0,
    greeting,
    async ask<Answer>(order: object) {
      const answer = next();
      child.send(order);
      return (await answer) as Answer;
    },
    async stop() {
      child.kill("SIGTERM");
      await ended;
    },
  };
}
