import type { Clock } from "../../runtime/lifecycle/clock.ts";

const SECOND_MS = 1_000;
/** In each second: so a person who tries a secret, and a sender with an old one, are answered at once. */
const PROMPT_PER_SECOND = 50;
const HOLD_MS = 250;
/** Each answer that is held costs memory: with these, more are given at once. */
const HELD_MAX = 1_000;

/**
 * Has answers to forged requests given late once many come: a connection's next request is
 * worked on once it has its answer, so a flood is slowed down to some hundred requests a second, and genuine events are not behind it.
 *
 * The returned function calls `answer` once: at once for the first 50 of a second, and when 1,000 wait; after 250 ms
 * else.
 */
export function makeRefusalPace({
  clock,
  promptPerSecond = PROMPT_PER_SECOND,
}: {
  clock: Clock;
  /** For tests; the product runs on the default. */
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
