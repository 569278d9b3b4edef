import type { Apply } from "./apply.ts";
import { BATCH_ROWS_MAX } from "./applySubjects.ts";
import { UnavailableError } from "../domain/errors.ts";

/** More concurrent statements only contend (measured). */
const STATEMENTS_IN_FLIGHT_MAX = 2;
/** Fewer events wait for the statement under way: one statement for two events costs half of two statements. */
const SECOND_STATEMENT_ROWS = 16;
/** But no longer than this: a statement may be waiting for an order that somebody else has locked. */
const PATIENCE_MS = 20;

interface Waiting {
  readonly seqs: readonly number[];
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Applies the positions that arrive while statements are under way together in the next statement. A job stands for one
 * commit of the inbox, often of a few events; applying jobs one by one would fall behind under load. A second statement
 * starts next to the first only for 16 events, or after 20 ms.
 *
 * The returned function resolves when `applyEvents` has ended for all of its positions, and rejects as that does. If
 * the database is unavailable, that fails all calls of a statement; any other problem fails only the calls whose
 * positions cause it.
 */
export function makeGroupApply({
  applyEvents,
}: Pick<Apply, "applyEvents">): (seqs: readonly number[]) => Promise<void> {
  const waiting: Waiting[] = [];
  let inFlight = 0;
  let patience: NodeJS.Timeout | undefined;

  function applyNext({ patient = true } = {}): void {
    if (waiting.length === 0 || inFlight === STATEMENTS_IN_FLIGHT_MAX) return;
    if (!patient || inFlight === 0 || countRows(waiting) >= SECOND_STATEMENT_ROWS) beginStatement();
    else patience ??= setTimeout(endPatience, PATIENCE_MS);
  }

  /**
   * Applies to everybody who is waiting by now: if the first were taken meanwhile, the others wait less than they
   * might.
   */
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
      // An unavailable database affects all of them; any other error may be caused by the positions of one.
      if (group.length === 1 || error instanceof UnavailableError) {
        for (const { reject } of group) reject(error);
      } else {
        for (const one of group) await applyTogether([one]);
      }
    }
  }

  function enter(seqs: readonly number[]): Promise<void> {
    return new Promise((resolve, reject) => {
      waiting.push({ seqs, resolve, reject });
      applyNext();
    });
  }

  return async (seqs) => {
    const parts: Promise<void>[] = [];
    for (let start = 0; start < seqs.length; start += BATCH_ROWS_MAX) {
      parts.push(enter(seqs.slice(start, start + BATCH_ROWS_MAX)));
    }
    await Promise.all(parts);
  };
}

function countRows(groups: readonly Waiting[]): number {
  return groups.reduce((rows, { seqs }) => rows + seqs.length, 0);
}

/** The first waiting callers, as many as one statement takes; none has more than that alone. */
function takeGroup(waiting: Waiting[]): Waiting[] {
  let rows = 0;
  const end = waiting.findIndex(({ seqs }) => (rows += seqs.length) > BATCH_ROWS_MAX);
  return waiting.splice(0, end === -1 ? waiting.length : end);
}
