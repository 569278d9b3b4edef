import type { Clock } from "../../runtime/lifecycle/clock.ts";
import { makeLoop } from "../../runtime/lifecycle/loop.ts";
import type { RedisClient } from "../backends/connectRedis.ts";
import type { Listener } from "../../database/listener.ts";
import { readHint, writeHint } from "./hints.ts";
import type { Hint, Hints } from "./hints.ts";

/** Kept where nobody takes them; what is older has its jobs. */
const HINTS_KEPT_MAX = 1_000;
/** Within the time after which the connection is taken for dead. */
const WAIT_SECONDS = 5;
const PAUSE_AFTER_ERROR_MS = 500;

/** Hints through a list in Redis: each is taken by one worker, whichever waits for it. */
export function makeRedisHints(deps: {
  readonly key: string;
  /** Sends; its commands end within a second. */
  readonly client: RedisClient;
  /** Opens a connection that waits for as long as Redis is away. */
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
    // The connection itself reports what breaks it.
    onError: () => undefined,
    clock,
  });
  loop.start();
  return {
    close() {
      const ended = loop.stop();
      client.disconnect();
      return ended;
    },
  };
}
