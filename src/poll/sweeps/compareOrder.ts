import type { Apply } from "../../apply/apply.ts";
import type { Instant } from "../../domain/order/instant.ts";
import type { Findings } from "../ledger/verifications.sql.ts";
import { OrderNotFoundError } from "../../provider/errors.ts";
import type { PollDeps } from "../cycle/deps.ts";

type Decisions = Awaited<ReturnType<Apply["applyReads"]>>;

/** What a part of a comparison found. */
export interface Difference {
  readonly findings: Findings;
  readonly references: readonly string[];
}

const NO_FINDINGS: Findings = { missing: 0, stale: 0, differing: 0, extra: 0 };
export const NO_DIFFERENCE: Difference = { findings: NO_FINDINGS, references: [] };

export function addDifference(left: Difference, right: Difference): Difference {
  const findings = {
    missing: left.findings.missing + right.findings.missing,
    stale: left.findings.stale + right.findings.stale,
    differing: left.findings.differing + right.findings.differing,
    extra: left.findings.extra + right.findings.extra,
  };
  return { findings, references: [...left.references, ...right.references] };
}

/** What had to be repaired was different: the kind tells what the mirror had before. */
export function findDifferences(decisions: Decisions): Difference {
  return decisions.reduce((sum, { verdict, previousStatus, conflict, reference }) => {
    if (verdict !== "applied") return sum;
    const kind = previousStatus === null ? "missing" : conflict ? "differing" : "stale";
    const references = reference === null ? [] : [reference];
    return addDifference(sum, { findings: { ...NO_FINDINGS, [kind]: 1 }, references });
  }, NO_DIFFERENCE);
}

/**
 * Reads one order of the mirror again and compares it. A change from `knownBefore` on is no difference: polling may
 * not have come to it yet. Throws what the client and apply throw.
 */
export async function compareOrder(
  deps: Pick<PollDeps, "source" | "client" | "apply" | "settleSeconds">,
  { reference, knownBefore, signal }: { reference: string; knownBefore: Instant; signal: AbortSignal },
): Promise<Difference> {
  const { sourceId } = deps.source;
  const settleNanos = BigInt(Math.round(deps.settleSeconds * 1_000)) * 1_000_000n;
  try {
    const { snapshot, requestedAt } = await deps.client.getOrder(reference, { priority: "verify", signal });
    const isNews = snapshot.version >= knownBefore;
    const via = isNews ? "refetch" : "verify";
    const decisions = await deps.apply.applyReads({
      sourceId,
      via,
      snapshots: [snapshot],
      requestedAt,
      settleNanos,
    });
    return isNews ? NO_DIFFERENCE : findDifferences(decisions);
  } catch (error) {
    if (!(error instanceof OrderNotFoundError)) throw error;
    return { findings: { ...NO_FINDINGS, extra: 1 }, references: [reference] };
  }
}
