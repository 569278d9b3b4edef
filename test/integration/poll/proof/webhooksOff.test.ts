import { expect, it } from "vitest";
import { judgeWebhooks } from "../../../../src/domain/order/lostEvents.ts";
import { readStandings } from "../../../../src/health/conditions/standing.ts";
import { startAnnouncedWorld } from "../../../support/virtual/virtualTime.ts";

const MINUTE_MS = 60_000;
/** The interval of 30 s, the settle time of 5 s, and 1 s for the request. */
const BEHIND_NANOS = 36n * 10n ** 9n;
/** Nobody sees a change that another one follows within a poll. */
const SEEN_SECONDS = 45;

it("stays within 36 s of the provider while webhooks are off for a quarter of an hour, and counts the lost events", async () => {
  const world = await startAnnouncedWorld({ speed: 4, trafficPerMinute: 6 });
  const { pool, sandbox, provider, runUntil } = world;
  world.startPoller("only");
  const read = async () => ({ ...(await readStandings(pool, "live"))[0]!, configured: true });

  await runUntil(8 * MINUTE_MS);
  const before = await read();
  expect(judgeWebhooks(before)).toBe("working");
  expect(before.announced).toBeGreaterThan(20);

  sandbox.setFaults({ loseShare: 1 });
  await runUntil(23 * MINUTE_MS, async () => {
    expect(await world.differences(sandbox.now() - BEHIND_NANOS)).toEqual([]);
  });
  expect(judgeWebhooks(await read())).toBe("stopped");
  sandbox.setFaults({ loseShare: 0 });
  await runUntil(33 * MINUTE_MS);

  const lost = await pool.query<{ change: string }>(
    "select reference || ' ' || status as change from mirror.unannounced_changes where state = 'lost'",
  );
  const changes = lost.rows.map(({ change }) => change);
  const sent = await provider.query<{ change: string; seconds: number | null }>(
    `select change, seconds from (
       select reference || ' ' || (body::json->'data'->>'status') as change, sent_as,
         ((lead(created) over (partition by reference order by created) - created) / 1e9)::float8 as seconds
       from sandbox.events where livemode
     ) e where sent_as = 'lost' and change not like '% created'`,
  );
  const truth = sent.rows.map(({ change }) => change);
  const seen = sent.rows.flatMap(({ change, seconds }) =>
    seconds === null || seconds > SEEN_SECONDS ? [change] : [],
  );
  expect(seen.length).toBeGreaterThan(50);
  expect(changes.filter((change) => !truth.includes(change))).toEqual([]);
  expect(seen.filter((change) => !changes.includes(change))).toEqual([]);
  const after = await read();
  expect(after).toMatchObject({ lost: changes.length, lostSinceLastEvent: 0 });
  expect(judgeWebhooks(after)).toBe("losing");
  expect(after.announced).toBeGreaterThan(before.announced);
});
