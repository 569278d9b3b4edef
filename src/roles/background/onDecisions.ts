import type { Decision } from "../../apply/applySubjects.ts";
import { makeAnnouncer } from "../../changes/announcements.ts";
import type { Pool } from "../../database/database.ts";
import type { RoleDeps } from "../role.ts";
import { meterDecisions } from "./metering.ts";

/** What a process does with each committed batch of decisions: count, announce, forward. */
export function composeOnDecisions(
  { metrics, clock, shutdown, onDecisions }: RoleDeps,
  pool: Pool,
): (decisions: readonly Decision[]) => void {
  const announcer = makeAnnouncer({ pool, clock });
  shutdown.onShutdown("announcements", () => announcer.close());
  const meter = meterDecisions(metrics, clock, onDecisions);
  return (decisions) => {
    announcer.announce(decisions);
    meter(decisions);
  };
}
