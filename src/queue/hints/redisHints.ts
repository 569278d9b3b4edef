import { unlessLate } from "../../runtime/lifecycle/abort.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import { makeLoop } from "../../runtime/lifecycle/loop.ts";
import type { RedisClient } from "../backends/connectRedis.ts";
import type { Listener } from "../../database/listener.ts";
import { readHint, writeHint } from "./hints.ts";
import type { Hint, Hints } from "./hints.ts";

/** Kept while nobody takes them; older ones have their jobs. */
const HINTS_KEPT_MAX = 1_000;
/** Shorter than the time after which the connection is considered dead. */
const WAIT_SECONDS = 5;
const PAUSE_AFTER_ERROR_MS = 500;
const CLOSE_DEADLINE_MS = 2_000;

/** Hints through a list in Redis: each is taken by one waiting worker. */
export function makeRedisHints(deps: {
  readonly key: string;
  /** For sending; its commands end within a second. */
  readonly client: RedisClient;
  /** Opens a connection that waits as long as Redis is unavailable. */
  readonly connect: () => RedisClient;
  readonly clock: Clock;
}): Hints {
  const { key, client, connect, clock } = deps;
  return {
    async send(hint) {
      const kept = await client.rpush(key, writeHint(hint));
      if (kept > HINTS_KEPT_MAX) await client.ltrim(key, -HINTS_KEPT_MAX, -1);
    },
    listen: (onHint) => listenOn(connect(), { key, clock, onHint }),
  };
}

function listenOn(
  client: RedisClient,
  { key, clock, onHint }: { key: string; clock: Clock; onHint: (hint: Hint) => void },
): Listener {
  const loop = makeLoop({
    async run() {
      const taken = await client.blpop(key, WAIT_SECONDS);
      const hint = taken ? readHint(taken[1]) : undefined;
      if (hint) onHint(hint);
    },
    everyMs: 0,
    backoff: { minMs: PAUSE_AFTER_ERROR_MS, maxMs: PAUSE_AFTER_ERROR_MS },
    // The connection itself reports errors.
    onError: () => undefined,
    clock,
  });
  loop.start();
  return {
    async close() {
      const ended = loop.stop();
      client.disconnect();
      // A cluster whose nodes are all gone forgets the command: its promise never settles.
      await unlessLate(ended, CLOSE_DEADLINE_MS);
    },
  };
}
