import { NANOS_PER_SECOND } from "../domain/instant.ts";
import type { Window } from "../domain/window.ts";

/** How long the windows of a sweep may be: halved where they are too much, doubled again where they are not. */
export interface Span {
  seconds(): number;
  /** To half of `window`, which was too much, at most. */
  shorten(window: Window): void;
  lengthen(): void;
}

/** Below this a window cannot be cut any more. */
const SPAN_MIN_SECONDS = 2;

export function makeSpan({ seconds: start, max }: { seconds: number; max: number }): Span {
  let seconds = start;
  return {
    seconds: () => seconds,
    shorten({ since, until }) {
      const tooLong = Math.min(seconds, Number((until - since) / NANOS_PER_SECOND));
      seconds = Math.max(SPAN_MIN_SECONDS, Math.floor(tooLong / 2));
    },
    lengthen: () => void (seconds = Math.min(max, seconds * 2)),
  };
}
