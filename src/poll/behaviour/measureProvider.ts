import { measurePage, measureSkew, noteBehaviour } from "../../domain/window/providerBehaviour.ts";
import type { BehaviourBook, Behaviour } from "../../domain/window/providerBehaviour.ts";
import { readBehaviour, recordBehaviour } from "../ledger/providerBehaviour.sql.ts";
import type { LeaderTask, TaskContext } from "../tasks/leaderTasks.ts";
import type { PollDeps } from "../cycle/deps.ts";
import type { Term } from "../leader/leadership.ts";
import type { ShownPage } from "../cycle/readWindow.ts";

export interface ProviderMeasurement {
  /** Learns from a page that was read anyway. */
  showPage(page: ShownPage): void;
  /** Records the measurements. */
  readonly task: LeaderTask;
}

/** How often unchanged values are recorded. */
const RECORD_EVERY_MS = 600_000;
/** While the task fails, the measurements must not pile up. */
const MEASURED_MAX = 100;

/** Measures behaviour that the spec leaves open, from the pages that sweeps read. */
export function makeProviderMeasurement(deps: PollDeps): ProviderMeasurement {
  const { client, clock, logger, pool } = deps;
  const { sourceId } = deps.source;
  let measured: Behaviour[] = [];
  let book: BehaviourBook = { known: {}, doubts: {} };
  let readFor: Term | undefined;
  let recordedMs = Number.NEGATIVE_INFINITY;

  function showPage(page: ShownPage): void {
    measured = [...measured, { ...measurePage(page), rate: page.rate }].slice(-MEASURED_MAX);
  }

  async function run({ term }: TaskContext): Promise<void> {
    if (readFor !== term) {
      const stored = await readBehaviour(pool, sourceId);
      book = { known: Object.fromEntries(stored.map(({ aspect, value }) => [aspect, value])), doubts: {} };
      readFor = term;
    }
    const news = take([...measured, measureSkew(client.providerClock.skewSeconds())]);
    measured = [];
    const due = clock.monotonicMs() - recordedMs >= RECORD_EVERY_MS;
    const behaviour = due ? agreedBehaviour(book) : news;
    if (Object.keys(behaviour).length === 0) return;
    await recordBehaviour(pool, term.lease, { sourceId, behaviour });
    if (due) recordedMs = clock.monotonicMs();
  }

  function take(all: readonly Behaviour[]): Behaviour {
    let news: Behaviour = {};
    for (const each of all) {
      const noted = noteBehaviour(book, each);
      sayNews(book.known, noted.news);
      news = { ...news, ...noted.news };
      book = noted.book;
    }
    return news;
  }

  function sayNews(known: Behaviour, news: Behaviour): void {
    for (const [aspect, value] of Object.entries(news)) {
      const previous = (known as Readonly<Record<string, string | undefined>>)[aspect];
      if (previous === undefined) logger.debug({ aspect, value }, "measured the provider");
      // A changed difference of the clocks may be ours, and the log of polls names it.
      else if (aspect !== "clock")
        logger.warn({ aspect, value, previous }, "the provider's behaviour has changed");
    }
  }

  return { showPage, task: { name: "measure the provider", everyMs: 0, run } };
}

/** The known values that the last measurements do not contradict. */
function agreedBehaviour({ known, doubts }: BehaviourBook): Behaviour {
  const doubted = doubts as Readonly<Record<string, unknown>>;
  return Object.fromEntries(Object.entries(known).filter(([aspect]) => doubted[aspect] === undefined));
}
