import { z } from "zod";
import { compareBounds, FIRST_BOUND, LAST_BOUND, readBound } from "./stateRange.ts";
import type { StateBound } from "./stateRange.ts";

/** Limits of one request, so that no request takes long. */
export const RANGES_MAX = 2_000;
export const LISTED_MAX = 5_000;
export const RECONCILE_BYTES_MAX = 1024 * 1024;

const BOUND_RULE =
  "nanoseconds since 1970, and behind a point the start of a hash in lower-case hexadecimal, as in 1763000000000000000.5e88";

const bound = z.string({ error: BOUND_RULE }).refine((text) => readBound(text) !== undefined, BOUND_RULE);

const REFERENCE_RULE = "an order's reference";
const reference = z
  .string({ error: REFERENCE_RULE })
  .min(1, REFERENCE_RULE)
  .max(255, REFERENCE_RULE)
  .refine((text) => !text.includes("\0") && text.isWellFormed(), REFERENCE_RULE);

const hex = (digits: number) => {
  const rule = `${digits} lower-case hexadecimal digits`;
  return z.string({ error: rule }).regex(new RegExp(`^[0-9a-f]{${digits}}$`), rule);
};

const FINGERPRINT_RULE = "a number, a point and 32 lower-case hexadecimal digits";
const STATE_RULE = "a reference and the first 32 digits of a hash";
const RANGES_RULE = `a list of 1 to ${RANGES_MAX} ranges`;

const range = z.object(
  {
    since: bound.optional().describe("Inclusive. Default: the end of the range before, or the beginning."),
    until: bound.optional().describe("Exclusive. Default: the end."),
    fingerprint: z
      .string({ error: FINGERPRINT_RULE })
      .regex(/^\d{1,10}\.[0-9a-f]{32}$/, FINGERPRINT_RULE)
      .describe("Number of the reader's states, and the exclusive or of their digests."),
    states: z
      .array(z.tuple([reference, hex(32)], { error: STATE_RULE }), { error: "a list of states" })
      .optional()
      .describe(
        "The reader's orders in the range, each with the first 32 digits of its hash: asks for the differences.",
      ),
  },
  { error: "an object" },
);

/** The body of POST /v1/reconcile; the messages complete "<name> must be …". */
export const reconcileSchema = z.object(
  {
    salt: hex(32).describe("Random; the reader chooses a new one for each exchange."),
    ranges: z
      .array(range, { error: RANGES_RULE })
      .min(1, RANGES_RULE)
      .max(RANGES_MAX, RANGES_RULE)
      .describe("Ascending, without overlaps."),
  },
  { error: "a JSON object" },
);

/** A range with both bounds. */
export interface AskedRange {
  readonly since: StateBound;
  readonly until: StateBound;
  readonly fingerprint: string;
  /** Undefined: only whether the range differs. */
  readonly states: readonly { readonly reference: string; readonly hash: string }[] | undefined;
}

/** Adds the bounds that are left out; returns the index of the first range that is empty or overlaps the one before. */
export function completeRanges(
  ranges: z.infer<typeof reconcileSchema>["ranges"],
): readonly AskedRange[] | number {
  const complete: AskedRange[] = [];
  let end = FIRST_BOUND;
  for (const [index, { fingerprint, states, ...bounds }] of ranges.entries()) {
    const since = readBound(bounds.since ?? "") ?? end;
    const until = readBound(bounds.until ?? "") ?? LAST_BOUND;
    if (compareBounds(since, end) < 0 || compareBounds(since, until) >= 0) return index;
    const listed = states?.map(([name, hash]) => ({ reference: name, hash }));
    complete.push({ since, until, fingerprint, states: listed });
    end = until;
  }
  return complete;
}

const stateHash = z.string().describe("SHA-256 of the order's canonical JSON (RFC 8785), in hexadecimal.");

export const reconciledSchema = z.object({
  position: z.string().describe("For `after` of the change feed: the answer has every change up to here."),
  differing: z.array(
    z.object({
      range: z
        .number()
        .int()
        .describe("Index of a range in the request. Ranges that are equal are left out."),
      fingerprint: z.string().describe("The mirror's, of the range up to `next`."),
      orders: z
        .array(
          z.object({
            hash: stateHash,
            order: z.looseObject({ reference: z.string(), updatedAt: z.string() }),
          }),
        )
        .optional()
        .describe("Orders that are not among the states of the request, or have another hash now."),
      gone: z
        .array(z.string())
        .optional()
        .describe("References of the request that the mirror does not have."),
      next: z
        .string()
        .nullish()
        .describe(
          "The bound from which the range must be asked for again; null if these are all differences.",
        ),
    }),
  ),
});
