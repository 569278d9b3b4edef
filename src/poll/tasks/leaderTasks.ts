import { ConfigurationError } from "../../domain/errors.ts";
import type { PollDeps } from "../cycle/deps.ts";
import type { Term } from "../leader/leadership.ts";
import { makeMirrorBranches } from "./mirrorBranches.ts";
import { makeReleaseDatedAhead } from "./releaseDatedAhead.ts";
import { makeRecheckOpenOrders } from "./recheckOpenOrders.ts";
import { makeAskNightly, makeVerifySamples } from "./verifyTasks.ts";
import { makeWatchBreaches } from "./watchBreaches.ts";
import { makeWatchWebhooks } from "./watchWebhooks.ts";

export interface TaskContext {
  readonly term: Term;
  readonly signal: AbortSignal;
}

/** Something that the leader sees to beside reading orders. */
export interface LeaderTask {
  readonly name: string;
  /** From the end of one run to the next; 0: after each cycle. */
  readonly everyMs: number;
  /** It is run before the first list request of each term, too. */
  readonly opensTerm?: true;
  /** Rejects when it failed; it is then tried again after the pause of a failure. */
  readonly run: (context: TaskContext) => Promise<void>;
}

export interface LeaderTasks {
  /** Runs what opens a term. A failure is logged; rejects as `run` does. */
  readonly open: (context: TaskContext) => Promise<void>;
  /**
   * Runs what is due. A failure is logged and costs no other task; rejects only when the term is over, or with a
   * ConfigurationError: with that nothing may be read.
   */
  readonly run: (context: TaskContext) => Promise<void>;
}

const FAILURE_PAUSE_MS = 60_000;

/** The tasks of a source's leader, with `more` at the end. */
export function makeSourceTasks(deps: PollDeps, more: readonly LeaderTask[]): LeaderTasks {
  const watching = deps.webhooksConfigured === true ? [makeWatchWebhooks(deps)] : [];
  return makeLeaderTasks(deps, [
    ...watching,
    makeWatchBreaches(deps),
    makeMirrorBranches(deps),
    makeRecheckOpenOrders(deps),
    makeReleaseDatedAhead(deps),
    makeAskNightly(deps),
    makeVerifySamples(deps),
    ...more,
  ]);
}

/** The tasks in the order in which they are run. @internal */
export function makeLeaderTasks(
  deps: Pick<PollDeps, "clock" | "logger">,
  tasks: readonly LeaderTask[],
): LeaderTasks {
  const { clock, logger } = deps;
  const dueMs = new Map<LeaderTask, number>();

  async function runOne(task: LeaderTask, context: TaskContext): Promise<void> {
    try {
      await task.run(context);
      dueMs.set(task, clock.monotonicMs() + task.everyMs);
    } catch (error) {
      context.signal.throwIfAborted();
      context.term.assertLeading();
      if (error instanceof ConfigurationError) throw error;
      dueMs.set(task, clock.monotonicMs() + FAILURE_PAUSE_MS);
      logger.warn({ task: task.name, err: error }, "a task of the leader failed; it is tried again later");
    }
  }

  async function runAll(chosen: readonly LeaderTask[], context: TaskContext): Promise<void> {
    for (const task of chosen) {
      context.signal.throwIfAborted();
      context.term.assertLeading();
      await runOne(task, context);
    }
  }

  const isDue = (task: LeaderTask) => (dueMs.get(task) ?? Number.NEGATIVE_INFINITY) <= clock.monotonicMs();
  return {
    open: (context) =>
      runAll(
        tasks.filter(({ opensTerm }) => opensTerm === true),
        context,
      ),
    run: (context) => runAll(tasks.filter(isDue), context),
  };
}
