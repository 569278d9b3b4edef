import { withTimeout } from "./abort.ts";
import { systemClock, type Clock } from "./clock.ts";
import type { Logger } from "./telemetry/logger.ts";

export type Shutdown = ReturnType<typeof makeShutdown>;

export interface ShutdownOptions {
  readonly logger: Logger;
  /** Default 10 s: less than the 30 s after which orchestrators kill a process. */
  readonly deadlineMs?: number;
  readonly clock?: Clock;
  /** Closes a part of the program: at the deadline, what still closes is given up and the process goes on. */
  readonly isPart?: boolean;
  /** The process, or a stand-in for tests. */
  readonly host?: ShutdownHost;
}

export interface ShutdownHost {
  readonly pid: number;
  on(event: string, listener: (cause: unknown) => void): unknown;
  off(event: string, listener: (cause: unknown) => void): unknown;
  kill(pid: number, signal: NodeJS.Signals): unknown;
  exit(code: number): unknown;
}

const DEADLINE_MS = 10_000;
const SIGNAL_NUMBERS = { SIGINT: 2, SIGTERM: 15 } as const;
type EndSignal = keyof typeof SIGNAL_NUMBERS;
/** npm and pnpm forward the Ctrl-C that the terminal has already sent, as SIGINT or SIGTERM: two count as one. */
const SAME_SIGNAL_MS = 1_000;
/** Process 1 of a container ignores a signal that it sends to itself; it then exits with the shell's code. */
const IGNORED_SIGNAL_MS = 500;

export function makeShutdown(options: ShutdownOptions) {
  const { logger, deadlineMs = DEADLINE_MS, clock = systemClock, host = process, isPart = false } = options;
  /** A program that ends says what it closes; what a part of it closes is for who looks for a fault. */
  const level = isPart ? "debug" : "info";
  const closing = new AbortController();
  const closes: { name: string; close: () => Promise<void> }[] = [];
  let starting: Promise<unknown> = Promise.resolve();
  let running: Promise<void> | undefined;
  let current: string | undefined;
  let finished = false;
  /** Takes `listen` back, or leaves one signal to somebody else. */
  let unlisten: (only?: EndSignal) => void = () => undefined;

  async function closeNext(): Promise<void> {
    const next = closes.pop();
    if (!next) return;
    current = next.name;
    const startedMs = clock.monotonicMs();
    try {
      await next.close();
      logger[level]({ name: next.name, duration_ms: Math.round(clock.monotonicMs() - startedMs) }, "closed");
    } catch (error) {
      logger.error({ name: next.name, err: error }, "could not be closed properly");
    }
    current = undefined;
    await closeNext();
  }

  async function closeAll(reason: string): Promise<void> {
    closing.abort(new Error(`shutting down: ${reason}`));
    if ((await withTimeout(Promise.allSettled([starting]), deadlineMs)) === "late")
      logger.error({ deadline_ms: deadlineMs }, "the start took too long to stop; closing around it");
    logger[level]({ reason, closes: closes.length }, "shutting down");
    // Its timer keeps the process alive: if a close hung while nothing else ran, Node would exit with success.
    if ((await withTimeout(closeNext(), deadlineMs)) === "late") {
      const fields = { name: current, deadline_ms: deadlineMs };
      if (isPart) logger.error(fields, "shutdown took too long; going on without it");
      else {
        logger.fatal(fields, "shutdown took too long; ending without it");
        host.exit(1);
        return;
      }
    }
    finished = true;
    logger[level]({ reason }, "shut down");
  }

  /**
   * Does `work`, which opens what is to be closed and looks at `signal` between its steps. A shutdown meanwhile closes
   * nothing before the step under way has ended, unless it outlasts the deadline: the step would fail in whatever it
   * uses, and what it is opening would be left running.
   */
  function start<Result>(work: () => Promise<Result>): Promise<Result> {
    const started = work();
    starting = started;
    return started;
  }

  /**
   * Closes everything and resolves, even if a close fails (the failure is logged and the next close runs). Later calls
   * return the same promise. After the deadline, which a start has for itself, the process ends with code 1.
   */
  const run = (reason: string) => (running ??= closeAll(reason));

  /**
   * Adds something to close. Closes run one after another, the last added first, so that everything closes before
   * what it depends on. Additions during a shutdown are closed by it; later ones are closed immediately.
   */
  function onShutdown(name: string, close: () => Promise<void>): void {
    closes.push({ name, close });
    if (finished) void closeNext();
  }

  /**
   * From now on SIGINT and SIGTERM shut down gracefully and then end the process by that signal, so that the parent
   * sees the true cause (130, 143 in a shell). A further signal, a second or more later, ends the process immediately.
   * An uncaught error is logged and ends the process with code 1.
   */
  const listen = () => {
    unlisten = listenForTheEnd({ run, current: () => current, logger, clock, host });
  };

  /** Aborted as soon as the shutdown begins; its reason says why. Named, because the build must write its type down. */
  const signal: AbortSignal = closing.signal;
  return { signal, start, onShutdown, run, listen, unlisten: (only?: EndSignal) => unlisten(only) };
}

function listenForTheEnd(deps: {
  run: (reason: string) => Promise<void>;
  current: () => string | undefined;
  logger: Logger;
  clock: Clock;
  host: ShutdownHost;
}): (only?: EndSignal) => void {
  const { run, current, logger, clock, host } = deps;
  const listeners = new Map<string, (cause: unknown) => void>();
  let first: { signal: EndSignal; atMs: number } | undefined;

  const endBySignal = (signal: EndSignal) => {
    unlisten();
    host.kill(host.pid, signal);
    setTimeout(() => host.exit(128 + SIGNAL_NUMBERS[signal]), IGNORED_SIGNAL_MS);
  };
  const receive = (signal: EndSignal) => {
    const atMs = clock.monotonicMs();
    if (!first) {
      first = { signal, atMs };
      void run(signal).then(() => endBySignal(signal));
      return;
    }
    if (atMs - first.atMs < SAME_SIGNAL_MS) return;
    logger.warn({ reason: signal, name: current() }, "second signal; ending at once");
    endBySignal(signal);
  };
  for (const signal of Object.keys(SIGNAL_NUMBERS) as EndSignal[])
    listeners.set(signal, () => receive(signal));
  const endByBug = (error: unknown) => {
    logger.fatal({ err: error }, "an error that nobody caught");
    host.exit(1);
  };
  listeners.set("uncaughtException", endByBug);
  listeners.set("unhandledRejection", endByBug);
  for (const [name, listener] of listeners) host.on(name, listener);
  function unlisten(only?: EndSignal): void {
    for (const [name, listener] of listeners) if (name === (only ?? name)) host.off(name, listener);
  }
  return unlisten;
}
