import type { Instant } from "../../domain/order/instant.ts";
import { NANOS_PER_MILLI } from "../../domain/order/instant.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";
import type { Pool, Write } from "./database.ts";
import type { Decisions } from "./decisions.ts";
import type { Directory } from "./directory.ts";
import type { Faults, FaultSwitches } from "../control/faults.ts";
import type { Promises } from "../fleet/promises.ts";
import type { SandboxClock } from "./sandboxClock.ts";

/** Settings that can change while the sandbox runs, in addition to the faults. */
interface Dials {
  seed: number;
  /** Speed of the fleet as a multiple of real time; 0 stops it. */
  fleetSpeed: number;
  ordersPerMinute: number;
  retryBaseMs: number;
}

export interface SandboxState {
  readonly pool: Pool;
  readonly write: Write;
  readonly clock: SandboxClock;
  readonly faults: FaultSwitches;
  readonly directory: Directory;
  readonly dials: Dials;
  readonly utcOffsetMinutes: number;
  readonly promises: Promises;
  readonly decisions: Decisions;
  readonly logger: Logger;
  /** Tells the task loop that something may be due. */
  readonly wake: () => void;
}

/** The time that the provider reports: its own clock plus the injected skew. */
export function shownTime(instant: Instant, faults: Faults): Instant {
  return instant + BigInt(faults.clockSkewMs) * NANOS_PER_MILLI;
}
