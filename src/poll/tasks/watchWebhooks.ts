import { judgeWebhooks } from "../../domain/order/lostEvents.ts";
import type { WebhookHealth, WebhookRecord } from "../../domain/order/lostEvents.ts";
import { readStandings } from "../../health/standing.sql.ts";
import { countAnnouncements, setEventGrace } from "../ledger/lostEvents.sql.ts";
import type { LeaderTask } from "./leaderTasks.ts";
import type { PollDeps } from "../cycle/deps.ts";

const EVERY_MS = 60_000;

/** Counts which events came, were late or lost, and logs changes of the webhooks' health. */
export function makeWatchWebhooks(
  deps: Pick<PollDeps, "source" | "pool" | "logger" | "eventGraceSeconds">,
): LeaderTask {
  const { pool, logger, eventGraceSeconds } = deps;
  const { sourceId } = deps.source;
  let health: WebhookHealth = "working";
  return {
    name: "watch webhooks",
    everyMs: eventGraceSeconds === undefined ? EVERY_MS : 0,
    async run() {
      if (eventGraceSeconds !== undefined) await setEventGrace(pool, sourceId, eventGraceSeconds);
      await countAnnouncements(pool, sourceId);
      const [standing] = await readStandings(pool, sourceId);
      if (standing === undefined) return;
      const record = { ...standing, configured: true };
      const now = judgeWebhooks(record);
      if (now !== health) sayHealth(logger, now, record);
      health = now;
    },
  };
}

function sayHealth(logger: PollDeps["logger"], health: WebhookHealth, record: WebhookRecord): void {
  const { lost, announced, lostSinceLastEvent } = record;
  const figures = { webhooks: health, lost, announced, lost_since_last_event: lostSinceLastEvent };
  switch (health) {
    case "stopped":
      logger.error(figures, "events have stopped: changes are found by polling only");
      return;
    case "losing":
      logger.warn(figures, "events were lost; polling found their changes");
      return;
    case "never-seen":
      logger.info(figures, "no event has arrived yet, although webhook secrets are set");
      return;
    case "working":
      logger.info(figures, "events arrive again, and none is missing");
      return;
    case "not-configured":
      return;
    default: {
      const never: never = health;
      return never;
    }
  }
}
