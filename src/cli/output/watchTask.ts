import { systemClock } from "../../runtime/lifecycle/clock.ts";
import { makeProgressLine } from "./progressLine.ts";
import type { Progress } from "./progressLine.ts";
import { printNotice } from "./terminal.ts";

const LOOK_EVERY_MS = 500;
/** If nobody has started a request for this long, perhaps no poller is running. */
const NOBODY_AFTER_MS = 45_000;

/** Shows the progress of a poller's task until the task ends; returns undefined if interrupted first. */
export async function watchTask<Task extends { readonly state: string }>(deps: {
  read: () => Promise<Task>;
  toProgress: (task: Task) => Progress;
  /** Lines to print when the user stops watching. */
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
      printNotice("Not started yet. It needs a running poller and may be queued behind other requests.");
    }
    await systemClock.sleep(LOOK_EVERY_MS, signal).catch(() => undefined);
  }
  line.end();
  for (const text of onInterrupt) printNotice(text);
  return undefined;
}
