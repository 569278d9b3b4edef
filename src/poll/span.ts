/** How long the windows of a sweep may be: halved where they are too much, doubled again where they are not. */
export interface Span {
  seconds(): number;
  shorten(): void;
  lengthen(): void;
}

/** Below this a window cannot be cut any more. */
const SPAN_MIN_SECONDS = 2;

export function makeSpan({ seconds: start, max }: { seconds: number; max: number }): Span {
  let seconds = start;
  return {
    seconds: () => seconds,
    shorten: () => void (seconds = Math.max(SPAN_MIN_SECONDS, Math.floor(seconds / 2))),
    lengthen: () => void (seconds = Math.min(max, seconds * 2)),
  };
}
