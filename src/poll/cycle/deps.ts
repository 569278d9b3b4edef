import type { Apply } from "../../apply/apply.ts";
import type { Pool } from "../../database/database.ts";
import type { OrderSource } from "../../domain/source/orderSource.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";

export interface PollDeps {
  readonly source: { readonly sourceId: string };
  /** Throws ConfigurationError once the source belongs to another provider. Asked before each cycle. */
  readonly assertOurs?: () => Promise<void>;
  readonly client: OrderSource;
  readonly pool: Pool;
  readonly apply: Pick<Apply, "applyReads">;
  readonly clock: Clock;
  /** Bound to the source: the lines do not name it again. */
  readonly logger: Logger;
  /** From the start of a cycle to that of the next. */
  readonly intervalSeconds: number;
  /** How long the provider may still change what it dates to an instant. Read at each use: it is tuned. */
  readonly settleSeconds: number;
  /** How late a change may appear to a read at the most, 15 minutes by default; see `ReadTime`. Tuned, too. */
  readonly horizonSeconds?: number | undefined;
  /** How far each window reaches back into the one before: longer than any change takes to appear; tuned too. */
  readonly overlapSeconds: number;
  /** How far back the delayed sweep looks now and then; tuned too. Default, and least: a quarter of an hour. */
  readonly lookbackSeconds?: number | undefined;
  /** How far back the history of a new source is read: ISO 8601 duration or instant. */
  readonly backfillSince: string;
  /** `request` leaves the interval between any two list reads, for a provider that counts every read. */
  readonly pace: "cycle" | "request";
  /** Names this process, like no other. */
  readonly holder: string;
  /** Default as the source promises: how long a new leader waits, since the one before it may have read just now. */
  readonly rateWindowMs?: number | undefined;
  /** The source has webhook secrets: what its events miss is watched. Default false. */
  readonly webhooksConfigured?: boolean | undefined;
  /** Default 5 min: how long an event may come after the read that found its change, before it counts as lost. */
  readonly eventGraceSeconds?: number | undefined;
  /** Default 15 s. */
  readonly leaseTtlMs?: number | undefined;
}
