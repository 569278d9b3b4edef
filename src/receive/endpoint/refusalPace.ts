import type { Clock } from "../../runtime/lifecycle/clock.ts";

const SECOND_MS = 1_000;
/** So a person testing a secret, or a sender with an old one, is answered immediately. */
const PROMPT_PER_SECOND = 50;
/** How many of them may leave together. */
const PROMPT_TOGETHER = 5;
const HOLD_MS = 250;
/** After this many forged requests in a row, a connection counts as flooding. */
const IN_ROW_MAX = 20;
const FLOODING_HOLD_MS = 1_000;
/** Between two delayed answers, unless there are too many of them. */
const SPACING_MS = 4;
/** Each delayed answer costs memory: beyond this number, answers are immediate. */
const HELD_MAX = 1_000;

export interface RefusalPace {
  /** Calls `answer` once, now or later: the answer to a forged request on this connection. */
  readonly refuse: (connection: object, answer: () => void) => void;
  /** Notes a genuine request on this connection. */
  readonly accept: (connection: object) => void;
}

/**
 * Delays the answers to forged requests once they exceed 50 per second: a connection's next request is processed only
 * after its answer, so a flood is slowed to a few hundred requests per second, and genuine events do not wait behind it.
 * Answers are immediate again while 1,000 are waiting.
 *
 * A delay is 250 ms, and a second for a connection that has brought nothing but forged requests lately. Connections are
 * distinguished, not addresses: behind a proxy, forged and genuine requests come from one address.
 *
 * Delayed answers leave one by one. If those to a flood left together, its next requests would come together, as one block
 * of work.
 */
export function makeRefusalPace({
  clock,
  promptPerSecond = PROMPT_PER_SECOND,
}: {
  clock: Clock;
  /** For tests; the product uses the default. */
  promptPerSecond?: number | undefined;
}): RefusalPace {
  const together = Math.min(PROMPT_TOGETHER, promptPerSecond);
  const turnMs = (SECOND_MS * together) / promptPerSecond;
  const inRow = new WeakMap<object, number>();
  const lastLeavesAtMs = { [HOLD_MS]: 0, [FLOODING_HOLD_MS]: 0 };
  let turn = Number.NEGATIVE_INFINITY;
  let prompt = 0;
  let held = 0;

  function mayLeaveNow(nowMs: number): boolean {
    const now = Math.floor(nowMs / turnMs);
    if (now !== turn) [turn, prompt] = [now, 0];
    prompt += 1;
    return prompt <= together;
  }

  return {
    accept: (connection) => void inRow.delete(connection),
    refuse(connection, answer) {
      const nowMs = clock.monotonicMs();
      const count = (inRow.get(connection) ?? 0) + 1;
      inRow.set(connection, count);
      const isFlooding = count > IN_ROW_MAX;
      if (held >= HELD_MAX || (!isFlooding && mayLeaveNow(nowMs))) {
        answer();
        return;
      }
      held += 1;
      const holdMs = isFlooding ? FLOODING_HOLD_MS : HOLD_MS;
      const spacingMs = Math.min(SPACING_MS, holdMs / held);
      const leavesAtMs = Math.max(nowMs + holdMs, lastLeavesAtMs[holdMs] + spacingMs);
      lastLeavesAtMs[holdMs] = leavesAtMs;
      void clock.sleep(leavesAtMs - nowMs).then(() => {
        held -= 1;
        answer();
      });
    },
  };
}
