import { expect, it, vi } from "vitest";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { makeShutdown, type ShutdownHost } from "../../../src/process/shutdown.ts";
import { logInto } from "../../support/run/logInto.ts";

function makeHost() {
  const listeners = new Map<string, (cause: unknown) => void>();
  const ended: string[] = [];
  const host: ShutdownHost = {
    pid: 1,
    on: (event, listener) => listeners.set(event, listener),
    off: (event) => listeners.delete(event),
    kill: (_pid, signal) => ended.push(`killed by ${signal}`),
    exit: (code) => ended.push(`exit ${code}`),
  };
  return { host, ended, listeners, send: (event: string, cause?: unknown) => listeners.get(event)?.(cause) };
}

function makeTime() {
  let nowMs = 0;
  return {
    clock: { now: () => 0n, monotonicMs: () => nowMs, sleep: () => Promise.resolve() },
    pass: (ms: number) => (nowMs += ms),
  };
}

/** A close that ends on demand. */
function makeGate() {
  let open = () => {};
  const passed = new Promise<void>((resolve) => (open = resolve));
  return { close: () => passed, open: () => open() };
}

it("closes in sequence, the last added first, and goes on after a close that fails or throws", async () => {
  const order: string[] = [];
  const { onShutdown, run } = makeShutdown({ logger: silentLogger, host: makeHost().host });
  for (const name of ["pool", "queue", "server"]) {
    onShutdown(name, async () => {
      order.push(`${name} begins`);
      await Promise.resolve();
      order.push(`${name} ends`);
    });
    onShutdown(`rejecting ${name}`, () => Promise.reject(new Error("no")));
    onShutdown(`throwing ${name}`, () => {
      throw new Error("no");
    });
  }
  await run("test");
  expect(order).toEqual(["server", "queue", "pool"].flatMap((name) => [`${name} begins`, `${name} ends`]));
});

it("aborts its signal before the first close, and runs once however often it is called", async () => {
  const { onShutdown, run, signal } = makeShutdown({ logger: silentLogger, host: makeHost().host });
  const seen: boolean[] = [];
  onShutdown("pool", async () => void seen.push(signal.aborted));
  await Promise.all([run("one"), run("two")]);
  await run("three");
  expect(seen).toEqual([true]);
  expect((signal.reason as Error).message).toBe("shutting down: one");
});

it("closes additions during a shutdown before older ones, and later additions immediately", async () => {
  const order: string[] = [];
  const { onShutdown, run } = makeShutdown({ logger: silentLogger, host: makeHost().host });
  onShutdown("pool", async () => void order.push("pool"));
  onShutdown("server", async () => {
    order.push("server");
    onShutdown("late", async () => void order.push("late"));
  });
  await run("test");
  expect(order).toEqual(["server", "late", "pool"]);
  onShutdown("later", async () => void order.push("later"));
  await vi.waitFor(() => expect(order).toContain("later"), 60_000);
});

it("lets a start end before it closes anything, and what the start has opened meanwhile first", async () => {
  const order: string[] = [];
  const { start, onShutdown, run, signal } = makeShutdown({ logger: silentLogger, host: makeHost().host });
  onShutdown("database", async () => void order.push("database"));
  const step = makeGate();
  const starting = start(async () => {
    await step.close();
    onShutdown("server", async () => void order.push("server"));
    order.push("a step ended");
    signal.throwIfAborted();
    order.push("the next step");
  });
  const running = run("test");
  step.open();
  await expect(starting).rejects.toThrow("shutting down: test");
  await running;
  expect(order).toEqual(["a step ended", "server", "database"]);
});

it("closes around a start that outlasts the deadline", async () => {
  const { host, ended } = makeHost();
  const closed: string[] = [];
  const { start, onShutdown, run } = makeShutdown({ logger: silentLogger, host, deadlineMs: 20 });
  onShutdown("database", async () => void closed.push("database"));
  const step = makeGate();
  void start(step.close);
  await run("test");
  expect([closed, ended]).toEqual([["database"], []]);
  step.open();
});

it("exits with 1 when a close exceeds the deadline, and names it", async () => {
  const lines: string[] = [];
  const logger = logInto((line) => lines.push(line));
  const { host, ended } = makeHost();
  const gate = makeGate();
  const { onShutdown, run } = makeShutdown({ logger, host, deadlineMs: 20 });
  onShutdown("stuck server", gate.close);
  const running = run("test");
  await vi.waitFor(() => expect(ended).toEqual(["exit 1"]), 60_000);
  expect(lines.at(-1)).toContain("stuck server");
  gate.open();
  await running;
});

it("exits by the received signal after everything closed, or with the shell's code for it when that has no effect", async () => {
  for (const signal of ["SIGINT", "SIGTERM"]) {
    const { host, ended, send, listeners } = makeHost();
    const gate = makeGate();
    const { onShutdown, listen } = makeShutdown({ logger: silentLogger, host });
    onShutdown("server", gate.close);
    listen();
    send(signal);
    await Promise.resolve();
    expect(ended).toEqual([]);
    gate.open();
    await vi.waitFor(() => expect(ended).toEqual([`killed by ${signal}`]), 60_000);
    // Otherwise the signal would reach our handler again and the process would never exit.
    expect([listeners.has("SIGINT"), listeners.has("SIGTERM")]).toEqual([false, false]);
    // Process 1 of a container ignores it.
    const code = signal === "SIGINT" ? 130 : 143;
    await vi.waitFor(() => expect(ended.slice(1)).toEqual([`exit ${code}`]), 60_000);
  }
});

it.each([
  ["exits immediately at a second signal", 1_000, ["SIGINT"], ["killed by SIGINT"]],
  [
    "treats the Ctrl-C that npm and pnpm forward shortly after the terminal's as the same one",
    999,
    ["SIGINT", "SIGTERM"],
    [],
  ],
] as const)("%s", (_promise, afterMs, signals, expected) => {
  const { host, ended, send } = makeHost();
  const { clock, pass } = makeTime();
  const { onShutdown, listen } = makeShutdown({ logger: silentLogger, host, clock, deadlineMs: 60_000 });
  onShutdown("server", makeGate().close);
  listen();
  send("SIGINT");
  pass(afterMs);
  for (const signal of signals) send(signal);
  expect(ended).toEqual(expected);
});

it("logs an uncaught error and exits with 1", () => {
  for (const event of ["uncaughtException", "unhandledRejection"]) {
    const { host, ended, send } = makeHost();
    makeShutdown({ logger: silentLogger, host }).listen();
    send(event, new Error("bug"));
    expect(ended).toEqual(["exit 1"]);
  }
});
