import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { systemClock } from "../../../src/process/clock.ts";

/** `request` goes to the server, `answer` comes from it. */
type Direction = "request" | "answer";

/** The faults of the connection between a program and a server. */
export interface Weather {
  /** Before each chunk, in each direction. */
  readonly delayMs: number;
  readonly bytesPerSecond: number;
  /** Bytes of these directions do not arrive until it heals: nothing answers and nothing is closed. */
  readonly silent: "nothing" | "both" | Direction;
  /** Every connection is reset, open ones and new ones. */
  readonly refuses: boolean;
  /** Each connection is reset after that many bytes of both directions together, wherever that is. */
  readonly resetAfterBytes: number;
}

const CLEAR: Weather = {
  delayMs: 0,
  bytesPerSecond: Infinity,
  silent: "nothing",
  refuses: false,
  resetAfterBytes: Infinity,
};

/**
 * A point at which the connection stops: before a request that contains `text` reaches the server, or before the answer
 * to it reaches the program. A program that is killed there is killed at a known step.
 */
export interface HoldPoint {
  readonly text: string;
  readonly before: Direction;
}

interface Line {
  readonly program: Socket;
  readonly server: Socket;
  bytes: number;
}

interface OpenHold extends HoldPoint {
  line: Line | undefined;
  reach(): void;
  readonly let: Promise<"go on" | "drop">;
}

export type FaultProxy = Awaited<ReturnType<typeof startFaultProxy>>;

/** A proxy on a free local port to a server on `targetPort`, at first without faults. */
export async function startFaultProxy(targetPort: number) {
  let port = targetPort;
  let weather = CLEAR;
  let changed = makeSignal();
  let hold: OpenHold | undefined;
  const lines = new Set<Line>();

  const isSilent = (direction: Direction) => weather.silent === "both" || weather.silent === direction;
  const speak = async (direction: Direction) => {
    while (isSilent(direction)) await changed.promise;
  };

  /** True when the chunk may continue. */
  async function passHold(line: Line, direction: Direction, chunk: Buffer): Promise<boolean> {
    const point = hold;
    if (point === undefined) return true;
    const isNew = point.line === undefined && direction === "request" && chunk.includes(point.text);
    if (isNew) point.line = line;
    if (point.line !== line || direction !== point.before) return true;
    point.reach();
    return (await point.let) === "go on";
  }

  async function pass(line: Line, direction: Direction, chunk: Buffer): Promise<void> {
    const to = direction === "request" ? line.server : line.program;
    const { delayMs, bytesPerSecond } = weather;
    const waitMs = delayMs + (chunk.length / bytesPerSecond) * 1_000;
    if (waitMs > 0) await systemClock.sleep(waitMs);
    await speak(direction);
    if (!(await passHold(line, direction, chunk))) return reset(line);
    const left = weather.resetAfterBytes - line.bytes;
    line.bytes += chunk.length;
    if (left <= chunk.length) {
      to.write(chunk.subarray(0, Math.max(0, left)), () => reset(line));
    } else if (!to.destroyed) {
      await new Promise<void>((resolve) => to.write(chunk, () => resolve()));
    }
  }

  function pump(line: Line, direction: Direction): void {
    const [from, to] = direction === "request" ? [line.program, line.server] : [line.server, line.program];
    from.on("data", (chunk: Buffer) => {
      from.pause();
      void pass(line, direction, chunk).then(() => from.resume());
    });
    from.on("error", () => undefined);
    // A silenced direction does not even forward the end of a connection.
    from.on("end", () => void speak(direction).then(() => to.end()));
    from.on("close", () => {
      lines.delete(line);
      void speak(direction).then(() => to.destroy());
    });
  }

  const server = createServer((program) => {
    if (weather.refuses) {
      program.resetAndDestroy();
      return;
    }
    const line: Line = { program, server: connect(port, "127.0.0.1"), bytes: 0 };
    lines.add(line);
    pump(line, "request");
    pump(line, "answer");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));

  const set = (change: Partial<Weather>) => {
    weather = { ...weather, ...change };
    if (weather.refuses) for (const line of lines) reset(line);
    const before = changed;
    changed = makeSignal();
    before.resolve();
  };
  return {
    port: (server.address() as AddressInfo).port,
    /** Changes the named properties, for open connections as well. */
    set,
    /** New connections go to this port from now on; open ones stay where they are. */
    moveTo: (moved: number) => void (port = moved),
    /** Removes all faults; silenced directions continue, as in TCP. */
    heal: () => set(CLEAR),
    /** The next request with that text, on any connection, until it is dropped or released. One point at a time. */
    holdAt(point: HoldPoint) {
      const reached = makeSignal();
      const verdict = makeSignal<"go on" | "drop">();
      const opened: OpenHold = { ...point, line: undefined, reach: reached.resolve, let: verdict.promise };
      hold = opened;
      const end = (how: "go on" | "drop") => {
        if (hold === opened) hold = undefined;
        verdict.resolve(how);
      };
      return { reached: reached.promise, drop: () => end("drop"), release: () => end("go on") };
    },
    async close() {
      set({ ...CLEAR, refuses: true });
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** `url` through the proxy. */
export function through(url: string, { port }: Pick<FaultProxy, "port">): string {
  const changed = new URL(url);
  changed.port = String(port);
  return changed.href;
}

export function portOf(url: string): number {
  return Number(new URL(url).port);
}

function reset({ program, server }: Line): void {
  if (!program.destroyed) program.resetAndDestroy();
  if (!server.destroyed) server.resetAndDestroy();
}

interface Signal<Value> {
  readonly promise: Promise<Value>;
  readonly resolve: (value: Value) => void;
}

function makeSignal<Value = void>(): Signal<Value> {
  let resolve: (value: Value) => void = () => undefined;
  const promise = new Promise<Value>((settle) => (resolve = settle));
  return { promise, resolve };
}
