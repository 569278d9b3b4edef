import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { readEventStream } from "../http/eventStream.ts";

const RETRY_MS = 200;

/** A change as a reader got it. */
export interface FollowedChange {
  readonly number: string;
  readonly reference: string;
  readonly revision: number;
}

/** A reader of the change feed that always continues where it stopped, as an integrator's does. */
export interface FeedFollower {
  /** In the sequence of arrival. */
  readonly changes: readonly FollowedChange[];
  /** Answers that asked the reader to start again or reported a mistake of the reader. */
  readonly refusals: readonly number[];
  /** How often it had to connect again. */
  readonly reconnects: number;
  stop(): Promise<void>;
}

/** Follows `/v1/changes/stream` of the mirror at `url` from the beginning. */
export function followFeed(url: string): FeedFollower {
  const changes: FollowedChange[] = [];
  const refusals: number[] = [];
  const stopping = new AbortController();
  let reconnects = -1;
  let last: string | undefined;

  async function read(): Promise<void> {
    const headers = last === undefined ? undefined : { "last-event-id": last };
    const response = await fetch(`${url}/v1/changes/stream`, {
      ...(headers ? { headers } : {}),
      signal: stopping.signal,
    });
    if (response.status >= 400 && response.status < 500) refusals.push(response.status);
    if (response.status !== 200) return void (await response.text());
    for await (const { id, data } of readEventStream(response)) {
      if (id !== undefined) last = id;
      if (data === undefined) continue;
      const { position, reference, revision } = JSON.parse(data) as Record<string, unknown>;
      const [, number = ""] = String(position).split(".");
      changes.push({ number, reference: String(reference), revision: Number(revision) });
    }
  }
  async function follow(): Promise<void> {
    while (!stopping.signal.aborted) {
      reconnects += 1;
      // The connection broke, or web is unreachable.
      await read().catch(() => undefined);
      await systemClock.sleep(RETRY_MS);
    }
  }
  const following = follow();
  return {
    changes,
    refusals,
    get reconnects() {
      return reconnects;
    },
    async stop() {
      stopping.abort();
      await following;
    },
  };
}
