import type { Apply } from "../apply/apply.ts";
import type { Pool } from "../database/database.ts";
import type { Mode, OrderSource } from "../domain/source/orderSource.ts";
import type { Clock } from "../process/clock.ts";
import type { Logger } from "../process/telemetry/logger.ts";

export interface PollDeps {
  readonly source: {
    readonly sourceId: string;
    /** Mode and provider that the source must have: a cycle does not begin if it has others by now. */
    readonly mode?: Mode;
    readonly provider?: string;
  };
  /** Throws the ConfigurationError that says why the source is not ours. */
  readonly assertOurs?: () => Promise<void>;
  readonly client: OrderSource;
  readonly pool: Pool;
  readonly apply: Pick<Apply, "applyReads">;
  readonly clock: Clock;
  /** Bound to the source: log lines do not have to name it. */
  readonly logger: Logger;
  /** From the start of a cycle to the start of the next. */
  readonly intervalSeconds: number;
  /**
   * Delay with which a change may appear in the provider's list: the margin of each read's horizon, and of each proof.
   */
  readonly marginSeconds: number;
  /** Begin of the history of a new source: ISO 8601 duration or instant. */
  readonly backfillSince: string;
  /** `request`: the client leaves an interval between any two list reads, for a provider that counts every read. */
  readonly pace: "cycle" | "request";
  /** Identifies this process uniquely. */
  readonly holder: string;
  /** Wait of a new leader, because the previous one may have read just now. Default: as the source promises. */
  readonly rateWindowMs?: number | undefined;
  /** Delay of an event after the read that found its change before it counts as lost. Default 5 min. */
  readonly eventGraceSeconds?: number | undefined;
  /** Default 15 s. */
  readonly leaseTtlMs?: number | undefined;
}
