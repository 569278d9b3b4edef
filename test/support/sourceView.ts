import type { SourceView } from "../../src/ops/health/collector.ts";

/** Seconds since 1970 of the views' look. */
export const LOOKED_AT = 1_763_632_830;

type Nested = "figures" | "standing" | "record";
type Parts = Partial<Omit<SourceView, Nested>> & { [Name in Nested]?: Partial<SourceView[Name]> };

/** What the overview is given of a source of which nothing is known yet; `parts` replaces some of that. */
export function makeSourceView(parts: Parts = {}): SourceView {
  const sourceId = "live";
  const empty: SourceView = {
    figures: {
      sourceId,
      mode: "live",
      baseUrl: "http://127.0.0.1",
      now: LOOKED_AT,
      polledThrough: null,
      safeThrough: null,
      lastCycleStartedAt: null,
      lastCycleEndedAt: null,
      lastError: null,
      pending: 0,
      oldestPendingAt: null,
      quarantined: 0,
      refetches: 0,
      gaps: 0,
      oldestGap: null,
      exceptions: 0,
      breaches: 0,
      lastBreachAt: null,
      lastEventAt: null,
      announced: 0,
      lost: 0,
      lostSinceLastEvent: 0,
      traitChangedAt: null,
      overlapSeconds: null,
      lateTailSeconds: null,
    },
    standing: {
      sourceId,
      now: BigInt(LOOKED_AT) * 1_000_000_000n,
      historySince: null,
      safeThrough: null,
      provedUntil: null,
      pausedAt: null,
      unannounced: 0,
    },
    webhooks: "never-seen",
    record: {
      configured: true,
      now: BigInt(LOOKED_AT) * 1_000_000_000n,
      lastEventAt: null,
      lost: 0,
      announced: 0,
      firstLostSinceLastEventAt: null,
      lostSinceLastEvent: 0,
      delays: [],
    },
    lag: null,
    hours: [],
    requests: [],
    listReads: { sent: 0, allowed: 1_080 },
    parked: [],
    works: [],
    coverage: { sourceId, cells: [], gaps: [] },
    alerts: [],
  };
  return {
    ...empty,
    ...parts,
    figures: { ...empty.figures, ...parts.figures },
    standing: { ...empty.standing, ...parts.standing },
    record: { ...empty.record, ...parts.record },
  };
}
