import { recordBranches, type BothOrganizations } from "../sources/recordBranches.sql.ts";
import { ConfigurationError } from "../domain/errors.ts";
import { addSeconds } from "../domain/order/instant.ts";
import type { OrderSource } from "../domain/source/orderSource.ts";
import type { PollDeps } from "./pollDeps.ts";
import type { Term } from "./leadership.ts";
import { countAnnouncements } from "./lostEvents.sql.ts";
import { endAnswered } from "../apply/quarantine.sql.ts";
import { requestNightly } from "./periodRequests.sql.ts";
import { requestGone } from "./refetches.sql.ts";
import { WalkStalledError } from "./sweeps/windows.ts";

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

const FAILURE_PAUSE_MS = 60_000;
const COUNT_EVERY_MS = 60_000;
/** The last two days are compared once a night. */
const NIGHTLY_SECONDS = 48 * 3_600;
const NIGHTLY_LOOK_MS = 600_000;

type LeaderTasks = (context: TaskContext, how?: { readonly opens?: boolean }) => Promise<void>;

/** The tasks of a source's leader. */
export function makeSourceTasks(deps: PollDeps): LeaderTasks {
  const { pool, source, client, eventGraceSeconds, marginSeconds } = deps;
  const { sourceId } = source;
  return makeLeaderTasks(deps, [
    {
      name: "mirror branches",
      everyMs: BRANCHES_EVERY_MS,
      run: (context) => mirrorBranches(deps, context),
    },
    {
      name: "count events that came, were late or lost",
      everyMs: eventGraceSeconds === undefined ? COUNT_EVERY_MS : 0,
      run: () => countAnnouncements(pool, sourceId, eventGraceSeconds),
    },
    {
      name: "end what reads have answered",
      everyMs: 0,
      run: () => endAnswered(pool, sourceId),
    },
    {
      name: "ask again for orders that are gone",
      everyMs: 0,
      run: () => requestGone(pool, { sourceId, marginSeconds }),
    },
    {
      name: "ask for the nightly comparison",
      everyMs: NIGHTLY_LOOK_MS,
      run() {
        const until = client.providerClock.providerNow();
        const window = { since: addSeconds(until, -NIGHTLY_SECONDS), until };
        return requestNightly(pool, { sourceId, window });
      },
    },
  ]);
}

/**
 * Makes the work after each cycle: runs what is due of the tasks, in their order; with `opens` the first one alone,
 * which comes before the first list request of a term. A failure is logged and affects no other task. Rejects only when
 * the term is over, or with a ConfigurationError, after which nothing may be read. @internal
 */
export function makeLeaderTasks(
  { clock, logger }: Pick<PollDeps, "clock" | "logger">,
  tasks: readonly LeaderTask[],
): LeaderTasks {
  const dueMs = new Map<LeaderTask, number>();
  const isDue = (task: LeaderTask) => (dueMs.get(task) ?? Number.NEGATIVE_INFINITY) <= clock.monotonicMs();

  return async function runTasks({ term, signal }, { opens = false } = {}) {
    for (const task of opens ? tasks.slice(0, 1) : tasks.filter(isDue)) {
      signal.throwIfAborted();
      term.assertLeading();
      let pauseMs = task.everyMs;
      try {
        await task.run({ term, signal });
      } catch (error) {
        signal.throwIfAborted();
        term.assertLeading();
        if (error instanceof ConfigurationError) throw error;
        pauseMs = FAILURE_PAUSE_MS;
        logger.warn({ task: task.name, err: error }, "a task of the leader failed; it will be retried later");
      }
      dueMs.set(task, clock.monotonicMs() + pauseMs);
    }
  };
}

/** A name, an address or a connection may change without an order that shows it. */
const BRANCHES_EVERY_MS = 180_000;
const PAGE_LIMIT = 200;
const PAGES_MAX = 100;

/**
 * Mirrors the branches that the provider lists. Costs nothing of the list rate. Throws ConfigurationError if they
 * belong to another organization. @internal
 */
export async function mirrorBranches(
  { source, client, pool, clock, logger }: Pick<PollDeps, "source" | "client" | "pool" | "clock" | "logger">,
  { term, signal }: TaskContext,
): Promise<void> {
  const { sourceId } = source;
  const startedMs = clock.monotonicMs();
  const raws = await listAllBranches(client, signal);
  const ageMs = clock.monotonicMs() - startedMs;
  const recorded = await recordBranches(pool, term.lease, { sourceId, raws, ageMs });
  if (recorded.kind === "refused") throw refuseOrganization(sourceId, recorded);
  if (recorded.kind === "empty") {
    return logger.warn("the provider lists no branches, which it had before; that proves nothing");
  }
  const { closed } = recorded;
  if (closed > 0) logger.info({ closed }, "branches are no longer listed by the provider");
}

/** All branches of the key's organization, as JSON texts. Throws WalkStalledError if the list has no end. */
async function listAllBranches(
  client: Pick<OrderSource, "listBranches">,
  signal: AbortSignal,
): Promise<string[]> {
  const raws: string[] = [];
  for (let pages = 0; pages < PAGES_MAX; pages += 1) {
    const page = await client.listBranches(
      { limit: PAGE_LIMIT, offset: raws.length },
      { priority: "refetch", signal },
    );
    raws.push(...page.raws);
    if (!page.hasMore) return raws;
    if (page.raws.length === 0) break;
  }
  // An incomplete list would close the missing branches.
  throw new WalkStalledError("the provider says that there are more branches but does not list them");
}

/** The refusal of a key, in one sentence with both organizations, and the ways on. */
function refuseOrganization(sourceId: string, { known, listed }: BothOrganizations): ConfigurationError {
  return new ConfigurationError(
    `Source ${sourceId} belongs to the organization with the branches ${known}, and the configured key is of the one with the branches ${listed}.`,
    {
      fix: `Give another organization a source name of its own (SOURCES_FILE) or another database; if the same one has new branches throughout, stop all processes and run \`order-mirror source adopt ${sourceId}\`.`,
    },
  );
}
