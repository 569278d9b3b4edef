import { systemClock } from "../../runtime/lifecycle/clock.ts";
import { makeProgressLine } from "./progressLine.ts";
import type { Progress } from "./progressLine.ts";
import { printNotice } from "./terminal.ts";

const LOOK_EVERY_MS = 500;
/** A request that nobody has begun for so long may have nobody to begin it. */
const NOBODY_AFTER_MS = 45_000;

/** Shows the progress of what a poller works off until it has ended; undefined when interrupted before. */
export async function watchTask<Task extends { readonly state: string }>(deps: {
  read: () => Promise<Task>;
  toProgress: (task: Task) => Progress;
  /** Lines for the person who stops watching. */
  onInterrupt: readonly string[];
  signal: AbortSignal;
}): Promise<Task | undefined> {
  const { read, toProgress, onInterrupt, signal } = deps;
  const line = makeProgressLine(process.stderr, systemClock.monotonicMs);
  const startedMs = systemClock.monotonicMs();
  let warned = false;
  while (!signal.aborted) {
    const task = await read();
    if (task.state === "running") line.show(toProgress(task));
    else if (task.state !== "requested") {
      line.end();
      return task;
    } else if (!warned && systemClock.monotonicMs() - startedMs > NOBODY_AFTER_MS) {
      warned = true;
      printNotice("Nobody has begun yet: it needs a running poller, and others may be before it.");
    }
    await systemClock.sleep(LOOK_EVERY_MS, signal).catch(() => undefined);
  }
  line.end();
  for (const text of onInterrupt) printNotice(text);
  return undefined;
}
