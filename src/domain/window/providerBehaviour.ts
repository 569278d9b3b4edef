import { NANOS_PER_SECOND } from "../order/instant.ts";
import type { Instant } from "../order/instant.ts";

/**
 * Provider behaviour that the spec leaves open and that answers show. The walk copes with every value; they are
 * measured because a change means that the provider has changed, and people should know before it matters.
 */
export const ASPECTS = ["sort", "precision", "page", "clock", "rate"] as const;
export type Aspect = (typeof ASPECTS)[number];

/** A value in words for each measured aspect. */
export type Behaviour = Readonly<Partial<Record<Aspect, string>>>;

/** With this many rows, fewer than one in a hundred unsorted pages looks sorted by chance. */
const TELLING_ROWS_MIN = 5;

const PRECISIONS = [
  [NANOS_PER_SECOND, "second"],
  [1_000_000n, "millisecond"],
  [1_000n, "microsecond"],
  [1n, "nanosecond"],
] as const;

export function measurePage({
  rows,
  hasMore,
}: {
  rows: readonly { readonly version: Instant | undefined }[];
  hasMore: boolean;
}): Behaviour {
  const versions = rows.flatMap(({ version }) => (version === undefined ? [] : [version]));
  // Only a page with more behind it reveals the page length.
  const page = hasMore && rows.length > 0 ? { page: String(rows.length) } : {};
  if (new Set(versions).size < TELLING_ROWS_MIN) return page;
  return { ...page, sort: nameSort(versions), precision: namePrecision(versions) };
}

function nameSort(versions: readonly Instant[]): string {
  const ascends = versions.every((version, index) => version >= (versions[index - 1] ?? version));
  if (ascends) return "ascending";
  const descends = versions.every((version, index) => version <= (versions[index - 1] ?? version));
  return descends ? "descending" : "unsorted";
}

function namePrecision(versions: readonly Instant[]): string {
  const found = PRECISIONS.find(([unit]) => versions.every((version) => version % unit === 0n));
  return found?.[1] ?? "nanosecond";
}

const SKEW_STEPS = [
  [300, "over 5 min"],
  [60, "over 1 min"],
  [5, "over 5 s"],
] as const;

/** By how much the local clock differs (positive: ahead), in steps, so that drift is not a change; null: unknown. */
export function measureSkew(skewSeconds: number | null): Behaviour {
  if (skewSeconds === null) return {};
  const step = SKEW_STEPS.find(([seconds]) => Math.abs(skewSeconds) > seconds);
  if (step === undefined) return { clock: "within 5 s" };
  return { clock: `${step[1]} ${skewSeconds > 0 ? "ahead" : "behind"}` };
}

/** The known values, and contradicting values that have not been seen often enough. */
export interface BehaviourBook {
  readonly known: Behaviour;
  readonly doubts: Readonly<Partial<Record<Aspect, { readonly value: string; readonly times: number }>>>;
}

/** A first value is accepted immediately; a different one must be measured this many times in a row. */
const TIMES_UNTIL_BELIEVED = 3;

/** The book including the `measured` values, and the values that are new or have changed. */
export function noteBehaviour(
  book: BehaviourBook,
  measured: Behaviour,
): { readonly book: BehaviourBook; readonly news: Behaviour } {
  let { known, doubts } = book;
  let news: Behaviour = {};
  for (const aspect of ASPECTS) {
    const value = measured[aspect];
    if (value === undefined) continue;
    const before = doubts[aspect];
    const times = known[aspect] === value ? 0 : before?.value === value ? before.times + 1 : 1;
    const believed = times > 0 && (known[aspect] === undefined || times >= TIMES_UNTIL_BELIEVED);
    if (believed) {
      known = { ...known, [aspect]: value };
      news = { ...news, [aspect]: value };
    }
    doubts = { ...doubts, [aspect]: believed || times === 0 ? undefined : { value, times } };
  }
  return { book: { known, doubts }, news };
}
