import { ConfigurationError } from "../domain/errors.ts";
import { addSeconds } from "../domain/order/instant.ts";
import type { PollDeps } from "./pollDeps.ts";
import type { Term } from "./leadership.ts";
import { countAnnouncements } from "./lostEvents.sql.ts";
import { requestNightly } from "./periodRequests.sql.ts";
import { mirrorBranches } from "./branches.ts";

interface TaskContext {
  readonly term: Term;
  readonly signal: AbortSignal;
}

/** Work of the leader other than reading orders. */
interface LeaderTask {
  readonly name: string;
  /** From the end of one run to the next; 0: after each cycle. */
  readonly everyMs: number;
  /** Rejects on failure; it is then retried after the pause for failures. */
  readonly run: (context: TaskContext) => Promise<void>;
}

export interface LeaderTasks {
  /** Runs the first task, before the first list request of a term. A failure is logged; rejects as `run` does. */
  readonly open: (context: TaskContext) => Promise<void>;
  /**
   * Runs what is due after a cycle. A failure is logged and affects no other task; rejects only when the term is over,
   * or with a ConfigurationError, after which nothing may be read.
   */
  readonly run: (context: TaskContext) => Promise<void>;
}

const FAILURE_PAUSE_MS = 60_000;
/** A name, an address or a connection may change without an order that shows it. */
const BRANCHES_EVERY_MS = 180_000;

/** The tasks of a source's leader. */
export function makeSourceTasks(deps: PollDeps): LeaderTasks {
  return makeLeaderTasks(deps, [
    {
      name: "mirror branches",
      everyMs: BRANCHES_EVERY_MS,
      run: (context) => mirrorBranches(deps, context),
    },
    makeCountEvents(deps),
    makeAskNightly(deps),
  ]);
}

/** The tasks in the order of their execution; the first one opens each term. @internal */
export function makeLeaderTasks(
  { clock, logger }: Pick<PollDeps, "clock" | "logger">,
  tasks: readonly LeaderTask[],
): LeaderTasks {
  const dueMs = new Map<LeaderTask, number>();

  async function runOne(task: LeaderTask, context: TaskContext): Promise<void> {
    context.signal.throwIfAborted();
    context.term.assertLeading();
    let pauseMs = task.everyMs;
    try {
      await task.run(context);
    } catch (error) {
      context.signal.throwIfAborted();
      context.term.assertLeading();
      if (error instanceof ConfigurationError) throw error;
      pauseMs = FAILURE_PAUSE_MS;
      logger.warn({ task: task.name, err: error }, "a task of the leader failed; it will be retried later");
    }
    dueMs.set(task, clock.monotonicMs() + pauseMs);
  }

  async function runAll(chosen: readonly LeaderTask[], context: TaskContext): Promise<void> {
    for (const task of chosen) await runOne(task, context);
  }

  const isDue = (task: LeaderTask) => (dueMs.get(task) ?? Number.NEGATIVE_INFINITY) <= clock.monotonicMs();
  return {
    open: (context) => runAll(tasks.slice(0, 1), context),
    run: (context) => runAll(tasks.filter(isDue), context),
  };
}

const COUNT_EVERY_MS = 60_000;

/** Counts which events came, were late or lost. */
function makeCountEvents({ pool, source, eventGraceSeconds }: PollDeps): LeaderTask {
  return {
    name: "count events",
    everyMs: eventGraceSeconds === undefined ? COUNT_EVERY_MS : 0,
    run: () => countAnnouncements(pool, source.sourceId, eventGraceSeconds),
  };
}

const NIGHTLY_SECONDS = 48 * 3_600;
const NIGHTLY_LOOK_MS = 600_000;

/** Requests a comparison of the last 48 hours once a night. */
function makeAskNightly({ source: { sourceId }, pool, client }: PollDeps): LeaderTask {
  return {
    name: "ask for the nightly comparison",
    everyMs: NIGHTLY_LOOK_MS,
    async run() {
      const until = client.providerClock.providerNow();
      const window = { since: addSeconds(until, -NIGHTLY_SECONDS), until };
      await requestNightly(pool, { sourceId, window });
    },
  };
}
