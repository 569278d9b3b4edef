import type { Clock } from "../../runtime/lifecycle/clock.ts";

const SECOND_MS = 1_000;
/** Per second: so a person testing a secret, or a sender with an old one, is answered immediately. */
const PROMPT_PER_SECOND = 50;
const HOLD_MS = 250;
/** Each delayed answer costs memory: beyond this number, answers are immediate. */
const HELD_MAX = 1_000;

/**
 * Delays the answers to forged requests once they exceed 50 per second: a connection's next request is processed only
 * after its answer, so a flood is slowed to a few hundred requests per second, and genuine events do not wait behind
 * it.
 *
 * The returned function calls `answer` once: immediately for the first 50 of a second and while 1,000 are waiting;
 * otherwise after 250 ms.
 */
export function makeRefusalPace({
  clock,
  promptPerSecond = PROMPT_PER_SECOND,
}: {
  clock: Clock;
  /** For tests; the product uses the default. */
  promptPerSecond?: number | undefined;
}): (answer: () => void) => void {
  let second = Number.NEGATIVE_INFINITY;
  let prompt = 0;
  let held = 0;

  return (answer) => {
    const now = Math.floor(clock.monotonicMs() / SECOND_MS);
    if (now !== second) [second, prompt] = [now, 0];
    if (prompt < promptPerSecond || held >= HELD_MAX) {
      prompt += 1;
      answer();
      return;
    }
    held += 1;
    void clock.sleep(HOLD_MS).then(() => {
      held -= 1;
      answer();
    });
  };
}
