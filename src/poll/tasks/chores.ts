import type { PollDeps } from "../cycle/deps.ts";
import type { Term } from "../leader/leadership.ts";
import { makeMirrorBranches } from "./mirrorBranches.ts";
import { makeReleaseDatedAhead } from "./releaseDatedAhead.ts";
import { makeRecheckOpenOrders } from "./recheckOpenOrders.ts";
import { makeAskNightly, makeVerifySamples } from "./verifyChores.ts";
import { makeWatchBreaches } from "./watchBreaches.ts";
import { makeWatchWebhooks } from "./watchWebhooks.ts";

export interface ChoreContext {
  readonly term: Term;
  readonly signal: AbortSignal;
}

/** Something that the leader sees to beside reading orders. */
export interface Chore {
  readonly name: string;
  /** From the end of one run to the next; 0: after each cycle. */
  readonly everyMs: number;
  /** Rejects when it failed; it is then tried again after the pause of a failure. */
  readonly run: (context: ChoreContext) => Promise<void>;
}

export interface Chores {
  /** Runs what is due. A failure is logged and costs no other chore; rejects only when the term is over. */
  readonly run: (context: ChoreContext) => Promise<void>;
}

const FAILURE_PAUSE_MS = 60_000;

/** The chores of a source's leader, with `more` at the end. */
export function makeSourceChores(deps: PollDeps, more: readonly Chore[]): Chores {
  const watching = deps.webhooksConfigured === true ? [makeWatchWebhooks(deps)] : [];
  return makeChores(deps, [
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

/** The chores in the order in which they are run. */
export function makeChores(deps: Pick<PollDeps, "clock" | "logger">, chores: readonly Chore[]): Chores {
  const { clock, logger } = deps;
  const dueMs = new Map<Chore, number>();

  async function runOne(chore: Chore, context: ChoreContext): Promise<void> {
    try {
      await chore.run(context);
      dueMs.set(chore, clock.monotonicMs() + chore.everyMs);
    } catch (error) {
      context.signal.throwIfAborted();
      context.term.assertLeading();
      dueMs.set(chore, clock.monotonicMs() + FAILURE_PAUSE_MS);
      logger.warn({ chore: chore.name, err: error }, "a chore of the poller failed; it is tried again later");
    }
  }

  return {
    async run(context) {
      for (const chore of chores) {
        if ((dueMs.get(chore) ?? Number.NEGATIVE_INFINITY) > clock.monotonicMs()) continue;
        context.signal.throwIfAborted();
        context.term.assertLeading();
        await runOne(chore, context);
      }
    },
  };
}
