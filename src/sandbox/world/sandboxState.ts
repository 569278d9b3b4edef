import type { Instant } from "../../domain/order/instant.ts";
import { NANOS_PER_MILLI } from "../../domain/order/instant.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";
import type { Pool, Write } from "./database.ts";
import type { Directory } from "./directory.ts";
import type { Faults, FaultSwitches } from "../control/faults.ts";
import type { SandboxClock } from "./sandboxClock.ts";

/** What may be turned while the sandbox runs, beside the faults. */
interface Dials {
  seed: number;
  /** How many times faster than life the fleet works; 0 stops it. */
  fleetSpeed: number;
  /** Orders that the business makes by itself. */
  ordersPerMinute: number;
  /** The wait before the first retry of a delivery. */
  retryBaseMs: number;
}

/** What every part of one sandbox shares. */
export interface SandboxState {
  readonly pool: Pool;
  readonly write: Write;
  readonly clock: SandboxClock;
  readonly faults: FaultSwitches;
  readonly directory: Directory;
  readonly dials: Dials;
  readonly utcOffsetMinutes: number;
  readonly logger: Logger;
  /** Tells the tasks that something may be due now. */
  readonly wake: () => void;
}

/** What the provider takes for the time: its own clock, wrong by the skew that is switched on. */
export function shownTime(instant: Instant, faults: Faults): Instant {
  return instant + BigInt(faults.clockSkewMs) * NANOS_PER_MILLI;
}
