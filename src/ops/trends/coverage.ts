import type { Instant } from "../../domain/order/instant.ts";
import type { Window } from "../../domain/window/window.ts";
import type { Breach } from "../../poll/ledger/breaches.sql.ts";

/**
 * - `before`: before the start of the history.
 * - `proved`: the mirror has every change of this time.
 * - `open`: too recent to be proved.
 * - `gap`: unproved, but later time is proved, so changes may be missing.
 * - `breach`: a proof of this time was withdrawn, whether or not it has been proved again.
 */
export type SpanKind = "before" | "proved" | "open" | "gap" | "breach";

export interface Span extends Window {
  readonly kind: SpanKind;
}

export interface Coverage {
  /** In the order in which they are drawn: later ones lie above earlier ones. */
  readonly spans: readonly Span[];
  /** Unproved periods followed by proved time. */
  readonly gaps: readonly Window[];
  /** Newest first. */
  readonly breaches: readonly Breach[];
}

/** What is known of `within`; `missing` are the periods that no proved window covers. */
export function divideCoverage(given: {
  within: Window;
  historySince: Instant | null;
  provedUntil: Instant | null;
  missing: readonly Window[];
  breaches: readonly Breach[];
}): Coverage {
  const { within, historySince, provedUntil, missing, breaches } = given;
  const begin = historySince ?? within.until;
  const end = provedUntil ?? begin;
  const gaps = cut(missing, { since: begin, until: end });
  const paint = (kind: SpanKind, windows: readonly Window[]): Span[] =>
    cut(windows, within).map(({ since, until }) => ({ kind, since, until }));
  const spans = [
    ...paint("before", [{ since: within.since, until: begin }]),
    ...paint("proved", [{ since: begin, until: end }]),
    ...paint("open", [{ since: end > begin ? end : begin, until: within.until }]),
    ...paint("gap", gaps),
    ...paint("breach", breaches),
  ];
  return { spans, gaps, breaches };
}

/** The parts of windows that lie within another one. */
function cut(windows: readonly Window[], within: Window): Window[] {
  return windows
    .map(({ since, until }) => ({
      since: since > within.since ? since : within.since,
      until: until < within.until ? until : within.until,
    }))
    .filter(({ since, until }) => since < until);
}

/** The kinds that a period has, the worst first. */
export function listKinds({ spans }: Coverage, { since, until }: Window): SpanKind[] {
  const overlapping = spans.filter((span) => span.since < until && since < span.until);
  return [...new Set(overlapping.map(({ kind }) => kind))].toReversed();
}
