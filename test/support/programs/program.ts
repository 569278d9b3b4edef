import { spawn, spawnSync, type ChildProcess, execFile } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { closeSync, openSync } from "node:fs";
import path from "node:path";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { promisify } from "node:util";
import { WEBHOOK_SECRET } from "../signing/signing.ts";

export const ROOT = path.resolve(import.meta.dirname, "../../..");
const MAIN = path.join(ROOT, "dist/cli/main.js");
/** Tells whether this machine has a program. */
export const has = (program: string) =>
  spawnSync("sh", ["-c", `command -v ${program}`], { stdio: "ignore" }).status === 0;
/** Variables of the machine that a program needs, without those of the product. */
const INHERITED = ["PATH", "HOME", "TMPDIR", "LANG"];
/** For a busy machine; otherwise it starts in a second. */
const START_TIMEOUT_MS = 180_000;

/** The built program's file; throws the build's output when the build failed. */
export function findProgram(): string {
  const failure = process.env["BUILD_FAILURE"];
  if (failure !== undefined) throw new Error(`the program was not built:\n${failure}`);
  return MAIN;
}

export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export type RunningProgram = ReturnType<typeof watchProgram>;

/** Stops a program that runs. */
const running = new Set<(signal: NodeJS.Signals) => Promise<Ending>>();

/**
 * Starts the built program with exactly these variables. Unless they say otherwise, requests from this machine are trusted
 * (LOCAL_TRUST). Its results go to the file `stdoutTo` and its messages to `stderrTo`, if given.
 */
export function startProgram(
  args: readonly string[],
  env: Record<string, string> = {},
  options: {
    stdoutTo?: string;
    stderrTo?: string;
    nodeOptions?: readonly string[];
    /** Main file of a program other than the built one. */
    program?: string;
  } = {},
) {
  const { stdoutTo, stderrTo, nodeOptions = [], program: main = findProgram() } = options;
  const [stdoutFile, stderrFile] = [stdoutTo, stderrTo].map((file) =>
    file === undefined ? undefined : openSync(file, "w"),
  );
  const inherited = Object.fromEntries(INHERITED.map((name) => [name, process.env[name]]));
  const child = spawn(process.execPath, [...nodeOptions, main, ...args], {
    // A folder without anybody's .env file.
    cwd: path.join(ROOT, "dist"),
    env: { ...inherited, NO_COLOR: "1", LOCAL_TRUST: "true", ...env },
    stdio: ["ignore", stdoutFile ?? "pipe", stderrFile ?? "pipe"],
  });
  for (const file of [stdoutFile, stderrFile]) if (file !== undefined) closeSync(file);
  return watchProgram(child);
}

/** Follows a program that was started otherwise. */
export function watchProgram(child: ChildProcess) {
  let stdout = "";
  let stderr = "";
  const news = new EventEmitter();
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
    news.emit("news");
  });
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
    news.emit("news");
  });
  let ending: Ending | undefined;
  const ended = new Promise<Ending>((resolve) => {
    child.once("close", (code, signal) => {
      ending = { code, signal, stdout, stderr };
      running.delete(stop);
      resolve(ending);
      news.emit("news");
    });
  });
  /** Its output so far. */
  const output = () => `${stdout}\n${stderr}`;
  /** Resolves with the match when stdout or stderr shows it; rejects when the program ends before. */
  const waitFor = async (pattern: RegExp): Promise<RegExpExecArray> => {
    const signal = AbortSignal.timeout(START_TIMEOUT_MS);
    for (;;) {
      const match = pattern.exec(output());
      if (match) return match;
      const why = ending ? `the program ended (${ending.code ?? ending.signal})` : "its time was over";
      if (ending || signal.aborted) throw new Error(`${why} before ${pattern}; it wrote:\n${output()}`);
      await once(news, "news", { signal }).catch(() => undefined);
    }
  };
  const stop = (signal: NodeJS.Signals = "SIGTERM") => {
    child.kill(signal);
    return ended;
  };
  running.add(stop);
  return { child, output, waitFor, ended, stop };
}

/** Variables of a mirror with the single source `live`, whose provider nothing answers for. */
export const LIVE_ENV = {
  DELIVERY_BASE_URL: "http://127.0.0.1:9",
  DELIVERY_LIVE_API_KEY: "dos_live_sandbox",
  DELIVERY_LIVE_WEBHOOK_SECRETS: WEBHOOK_SECRET,
  LOG_FORMAT: "json",
};

export type Role = "web" | "worker" | "poller" | "up";

/** Starts a role with those variables, changed by `env`; resolves when it is ready. */
export async function startRole(role: Role, env: Record<string, string>): Promise<RunningProgram> {
  const program = startProgram([role], { ...LIVE_ENV, ...env });
  await program.waitFor(role === "up" ? /poller is ready/ : new RegExp(`${role} is ready`));
  return program;
}

/** Runs a command to its end. */
export function runProgram(args: readonly string[], env: Record<string, string> = {}): Promise<Ending> {
  return startProgram(args, env).ended;
}

/** Ends everything that a test left running; call it in afterEach. */
export async function stopPrograms(): Promise<void> {
  await Promise.all([...running].map((stop) => stop("SIGKILL")));
}

const run = promisify(execFile);
export const MODULES = path.join(ROOT, "node_modules");

/**
 * Packs this project as it is published, and installs it in a folder as npm does, but with this project's dependencies, so
 * that nothing is downloaded; the run has built it. Programs in the folder are ES modules, and may also load `others`. Resolves with the tarball.
 */
export async function installPacked(folder: string, others: readonly string[] = []): Promise<string> {
  const { stdout } = await run("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", folder], {
    cwd: ROOT,
  });
  const [packed] = JSON.parse(stdout) as [{ filename: string }];
  const tarball = path.join(folder, packed.filename);
  const home = path.join(folder, "node_modules", "order-mirror");
  await mkdir(home, { recursive: true });
  await run("tar", ["-xzf", tarball, "-C", home, "--strip-components=1"]);
  await symlink(MODULES, path.join(home, "node_modules"));
  for (const name of others) await symlink(path.join(MODULES, name), path.join(folder, "node_modules", name));
  await writeFile(path.join(folder, "package.json"), JSON.stringify({ type: "module" }));
  return tarball;
}
