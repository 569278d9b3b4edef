import { makeApply } from "../../../src/apply/apply.ts";
import type { Apply } from "../../../src/apply/apply.ts";
import type { Pool } from "../../../src/database/database.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { deliveryEvents } from "../../../src/wire/events.ts";

/** Applies observations of the source `live`, or of another one in live mode. */
export function makeLiveApply(pool: Pool, sourceId = "live"): Apply {
  const modes = new Map([[sourceId, "live"]] as const);
  return makeApply({ events: deliveryEvents, pool, logger: silentLogger, modes });
}
