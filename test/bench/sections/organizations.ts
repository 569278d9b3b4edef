import { canStartRedis, startRedis } from "../../support/servers/redis.ts";
import type { Bench } from "../bench.ts";
import { startLoad } from "../children.ts";
import { amount } from "../effort.ts";
import { compare } from "../measure.ts";
import { makeEnvironment, startRole } from "../roles.ts";
import { writeSources } from "../sourcesFile.ts";
import { timeEvents } from "../timeEvents.ts";

const ORGANIZATIONS = 1_000;
const ORDERS_PER_DAY = 10_000_000;
const EVENTS_PER_ORDER = 5;
const DAY_SECONDS = 86_400;
const MEAN_PER_SECOND = Math.round((ORDERS_PER_DAY * EVENTS_PER_ORDER) / DAY_SECONDS);
/** The busiest hour, at mealtime. */
const PEAK_PER_SECOND = 3 * MEAN_PER_SECOND;
const RUN_SECONDS = 5;

/**
 * A day of 1,000 organizations with ten million orders, at its mean and its peak, on one web, one worker and one Redis.
 */
export const benchOrganizations: Bench = async ({ databaseUrl, onEnd }) => {
  const load = await startLoad();
  onEnd(load.stop);
  const file = await writeSources(ORGANIZATIONS, onEnd);
  // docs/scaling.md recommends it at this size; its figures differ from those of the queue in Postgres.
  const redis = canStartRedis ? await startRedis() : undefined;
  if (redis === undefined) process.stderr.write("There is no redis-server: the queue is in Postgres.\n");
  onEnd(async () => redis?.stop());
  const env = { ...makeEnvironment({ databaseUrl, redisUrl: redis?.url }), SOURCES_FILE: file };
  const web = await startRole("web", env);
  onEnd(web.stop);
  const worker = await startRole("worker", env);
  onEnd(worker.stop);
  const subject = (name: string, perSecond: number, sources?: number) => ({
    name,
    run: () =>
      timeEvents(
        { load, web, worker },
        {
          requests: amount(RUN_SECONDS * perSecond),
          perSecond,
          ...(sources === undefined ? {} : { sources }),
        },
      ),
  });
  return compare({
    section: "organizations",
    unit: "ms",
    subjects: [
      subject(`the day's mean, ${MEAN_PER_SECOND} events/s`, MEAN_PER_SECOND, ORGANIZATIONS),
      subject(`its peak, ${PEAK_PER_SECOND} events/s`, PEAK_PER_SECOND, ORGANIZATIONS),
    ],
    limit: subject("limit: the mean, all from one organization", MEAN_PER_SECOND),
  });
};
