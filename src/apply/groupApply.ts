import type { Apply } from "./apply.ts";
import { BATCH_ROWS_MAX } from "./applySubjects.ts";
import { ApplyInterruptedError } from "./errors.ts";

/** What the apply path can use (measured): more statements at a time only contend. */
const STATEMENTS_IN_FLIGHT_MAX = 2;
/** Where fewer wait, they wait for the statement under way: one for two events costs half of two for one each. */
const SECOND_STATEMENT_ROWS = 16;
/** But no longer than this: a statement may itself wait, for an order that somebody else has locked. */
const PATIENCE_MS = 20;

interface Waiting {
  readonly seqs: readonly number[];
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Applies the positions that come while statements are under way together in the next statement. A hint stands for one
 * commit of the inbox, often of a few events: one by one, they would fall behind where much comes in. A second
 * statement begins beside the first only for 16 events, or after 20 ms. A position that comes again while it is under
 * way, by its job after its hint, is not applied a second time but waited for.
 *
 * The returned function resolves when all of its positions are decided on, and rejects as `applyEvents` does; what
 * is wrong with some positions fails those only that came with them.
 */
export function makeGroupApply({
  applyEvents,
}: Pick<Apply, "applyEvents">): (seqs: readonly number[]) => Promise<void> {
  const waiting: Waiting[] = [];
  /** What those positions wait for that are not decided on yet. */
  const underWay = new Map<number, Promise<void>>();
  let inFlight = 0;
  let patience: NodeJS.Timeout | undefined;

  function applyNext({ patient = true } = {}): void {
    if (waiting.length === 0 || inFlight === STATEMENTS_IN_FLIGHT_MAX) return;
    if (!patient || inFlight === 0 || countRows(waiting) >= SECOND_STATEMENT_ROWS) beginStatement();
    else patience ??= setTimeout(endPatience, PATIENCE_MS);
  }

  /** Of whoever waits by now: where the first were taken meanwhile, others wait less than they might. */
  function endPatience(): void {
    patience = undefined;
    applyNext({ patient: false });
  }

  function beginStatement(): void {
    inFlight += 1;
    void applyTogether(takeGroup(waiting)).finally(() => {
      inFlight -= 1;
      applyNext();
    });
  }

  async function applyTogether(group: readonly Waiting[]): Promise<void> {
    try {
      await applyEvents(group.flatMap(({ seqs }) => seqs));
      for (const { resolve } of group) resolve();
    } catch (error) {
      // Away is away for all of them; anything else may lie in the positions of one.
      if (group.length === 1 || error instanceof ApplyInterruptedError) {
        for (const { reject } of group) reject(error);
      } else {
        for (const one of group) await applyTogether([one]);
      }
    }
  }

  function enter(seqs: readonly number[]): Promise<void> {
    const decided = new Promise<void>((resolve, reject) => {
      waiting.push({ seqs, resolve, reject });
    }).finally(() => {
      for (const seq of seqs) underWay.delete(seq);
    });
    for (const seq of seqs) underWay.set(seq, decided);
    applyNext();
    return decided;
  }

  return async (seqs) => {
    const awaited = new Set(seqs.flatMap((seq) => underWay.get(seq) ?? []));
    const fresh = seqs.filter((seq) => !underWay.has(seq));
    for (let start = 0; start < fresh.length; start += BATCH_ROWS_MAX) {
      awaited.add(enter(fresh.slice(start, start + BATCH_ROWS_MAX)));
    }
    await Promise.all(awaited);
  };
}

function countRows(groups: readonly Waiting[]): number {
  return groups.reduce((rows, { seqs }) => rows + seqs.length, 0);
}

/** The first that wait, as many as one statement takes; none holds more than that by itself. */
function takeGroup(waiting: Waiting[]): Waiting[] {
  let rows = 0;
  const end = waiting.findIndex(({ seqs }) => (rows += seqs.length) > BATCH_ROWS_MAX);
  return waiting.splice(0, end === -1 ? waiting.length : end);
}
