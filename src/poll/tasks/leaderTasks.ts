import { ConfigurationError } from "../../domain/errors.ts";
import { addSeconds } from "../../domain/order/instant.ts";
import type { PollDeps } from "../cycle/deps.ts";
import type { Term } from "../leader/leadership.ts";
import { requestNightly } from "../ledger/periodRequests.sql.ts";
import type { CycleEnd } from "../ledger/pollState.sql.ts";
import { makeKeepFacts } from "./keepFacts.ts";
import { makeMirrorBranches } from "./mirrorBranches.ts";
import { makeWatchBreaches } from "./watchBreaches.ts";
import { makeWatchWebhooks } from "./watchWebhooks.ts";

export interface TaskContext {
  readonly term: Term;
  readonly signal: AbortSignal;
}

/** Work of the leader other than reading orders. */
export interface LeaderTask {
  readonly name: string;
  /** From the end of one run to the next; 0: after each cycle. */
  readonly everyMs: number;
  /** It also runs before the first list request of each term. */
  readonly opensTerm?: true;
  /** All that gives it work. While this is as it was before a run that left nothing, it does not run again. */
  readonly concerns?: (end: CycleEnd) => readonly unknown[];
  /**
   * Resolves with "again" if work may be left. Rejects on failure; it is then retried after the pause for failures.
   */
  readonly run: (context: TaskContext) => Promise<"again" | void>;
}

export interface LeaderTasks {
  /** Runs the tasks that open a term. A failure is logged; rejects as `run` does. */
  readonly open: (context: TaskContext) => Promise<void>;
  /**
   * Runs what is due after a cycle. A failure is logged and affects no other task; rejects only when the term is over,
   * or with a ConfigurationError, after which nothing may be read.
   */
  readonly run: (context: TaskContext, end: CycleEnd) => Promise<void>;
}

const FAILURE_PAUSE_MS = 60_000;

/** The tasks of a source's leader, followed by `more`. */
export function makeSourceTasks(deps: PollDeps): LeaderTasks {
  const watching = deps.webhooksConfigured === true ? [makeWatchWebhooks(deps)] : [];
  return makeLeaderTasks(deps, [
    ...watching,
    makeWatchBreaches(deps),
    makeKeepFacts(deps),
    makeMirrorBranches(deps),
    makeAskNightly(deps),
  ]);
}

/** The tasks in the order of their execution. @internal */
export function makeLeaderTasks(
  deps: Pick<PollDeps, "clock" | "logger">,
  tasks: readonly LeaderTask[],
): LeaderTasks {
  const { clock, logger } = deps;
  const dueMs = new Map<LeaderTask, number>();
  /** What each task had looked at when it left nothing, in the term of `settledIn`. */
  const settled = new Map<LeaderTask, string>();
  let settledIn: Term | undefined;

  async function runOne(task: LeaderTask, context: TaskContext, concerns?: string): Promise<void> {
    settled.delete(task);
    try {
      const left = await task.run(context);
      dueMs.set(task, clock.monotonicMs() + task.everyMs);
      if (left !== "again" && concerns !== undefined) settled.set(task, concerns);
    } catch (error) {
      context.signal.throwIfAborted();
      context.term.assertLeading();
      if (error instanceof ConfigurationError) throw error;
      dueMs.set(task, clock.monotonicMs() + FAILURE_PAUSE_MS);
      logger.warn({ task: task.name, err: error }, "a task of the leader failed; it will be retried later");
    }
  }

  async function runAll(chosen: readonly LeaderTask[], context: TaskContext, end?: CycleEnd): Promise<void> {
    for (const task of chosen) {
      const concerns = end && task.concerns?.(end).join(" ");
      if (concerns !== undefined && settled.get(task) === concerns) continue;
      context.signal.throwIfAborted();
      context.term.assertLeading();
      await runOne(task, context, concerns);
    }
  }

  const isDue = (task: LeaderTask) => (dueMs.get(task) ?? Number.NEGATIVE_INFINITY) <= clock.monotonicMs();
  return {
    open: (context) =>
      runAll(
        tasks.filter(({ opensTerm }) => opensTerm === true),
        context,
      ),
    run(context, end) {
      // Another leader may have left work since.
      if (settledIn !== context.term) settled.clear();
      settledIn = context.term;
      return runAll(tasks.filter(isDue), context, end);
    },
  };
}

const NIGHTLY_SECONDS = 48 * 3_600;
const NIGHTLY_LOOK_MS = 600_000;

/** Requests a comparison of the last 48 hours once a night. */
function makeAskNightly(deps: Pick<PollDeps, "source" | "pool" | "client">): LeaderTask {
  const { sourceId } = deps.source;
  return {
    name: "ask for the nightly comparison",
    everyMs: NIGHTLY_LOOK_MS,
    async run() {
      const until = deps.client.providerClock.providerNow();
      const window = { since: addSeconds(until, -NIGHTLY_SECONDS), until };
      await requestNightly(deps.pool, { sourceId, window });
    },
  };
}
