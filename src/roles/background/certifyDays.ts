import { readDisproved, readUncertifiedDays } from "../../certificates/certificates.sql.ts";
import { issueCertificate, PeriodNotProvedError, revokeDisproved } from "../../certificates/issue.ts";
import { provideSigningKeys } from "../../certificates/signingKey.ts";
import type { KeyPlace, SigningKeys } from "../../certificates/signingKey.ts";
import type { Pool } from "../../database/database.ts";
import { OrderMirrorError } from "../../domain/errors.ts";
import { addSeconds, formatInstant } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { LOOKBACK_MIN_SECONDS } from "../../domain/window/lateness.ts";
import type { LeaderTask } from "../../poll/tasks/leaderTasks.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";

/** What is proved up to an instant certifies days that ended this long before it, or longer if changes come later. */
const MARGIN_SECONDS = LOOKBACK_MIN_SECONDS;

/**
 * After each cycle, revokes certificates that a breach has disproved and certifies the first day of the last week that
 * is proved and has none. A failure never stops polling: what cannot be certified is logged once and tried again.
 */
export function makeCertifyDays(asked: {
  readonly pool: Pool;
  readonly sourceId: string;
  readonly place: KeyPlace;
  readonly logger: Logger;
}): LeaderTask {
  const { pool, sourceId, place, logger } = asked;
  const logged = new Set<string>();
  const hopeless = new Set<string>();

  async function attempt(day: string, work: () => Promise<unknown>): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (error) {
      if (!(error instanceof OrderMirrorError)) throw error;
      if (!logged.has(day + error.name))
        logger.warn({ err: error, fix: error.fix, day }, "a day is not certified");
      logged.add(day + error.name);
      if (error instanceof PeriodNotProvedError && error.retry === "never") hopeless.add(day);
      return false;
    }
  }

  return {
    name: "certify days",
    everyMs: 0,
    concerns: ({ historySince, safeThrough, lastBreach }) => [
      historySince,
      lastBreach,
      safeThrough && formatDay(addSeconds(BigInt(safeThrough), -MARGIN_SECONDS)),
    ],
    async run() {
      const disproved = await readDisproved(pool, sourceId);
      const uncertified = await readUncertifiedDays(pool, { sourceId, marginSeconds: MARGIN_SECONDS });
      const days = uncertified.filter(({ since }) => !hopeless.has(formatDay(since)));
      if (disproved.length + days.length === 0) return;
      let keys: SigningKeys | undefined;
      await attempt("any", async () => {
        const provided = provideSigningKeys(place);
        const revoked = await revokeDisproved({ pool, keys: provided }, sourceId);
        if (revoked > 0)
          logger.error({ revoked }, "certificates were revoked: a change was found that they had missed");
        keys = provided;
      });
      if (keys === undefined) return "again";
      const deps = { pool, keys };
      for (const window of days) {
        if (await attempt(formatDay(window.since), () => issueCertificate(deps, { sourceId, ...window })))
          break;
      }
      return "again";
    },
  };
}

function formatDay(instant: Instant): string {
  return formatInstant(instant).slice(0, 10);
}
