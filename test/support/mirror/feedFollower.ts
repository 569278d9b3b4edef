import { createMirrorClient } from "../../../src/client/mirrorClient.ts";
import type { FollowState } from "../../../src/client/mirrorClient.ts";
import { ProviderError } from "../../../src/provider/errors.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";

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
  readonly refusals: readonly (number | null)[];
  /** How often it had to connect again. */
  readonly reconnects: number;
  stop(): Promise<void>;
}

/** Follows the feed of the mirror at `url` from the beginning, with the product's own client. */
export function followFeed(url: string): FeedFollower {
  const mirror = createMirrorClient({ baseUrl: url });
  const changes: FollowedChange[] = [];
  const refusals: (number | null)[] = [];
  const stopping = new AbortController();
  const { signal } = stopping;
  let reconnects = -1;
  let last = "beginning";
  const onState = ({ state }: FollowState) => {
    if (state === "following") reconnects += 1;
  };

  async function read(): Promise<void> {
    for await (const { position, reference, revision } of mirror.changes({ after: last, signal, onState })) {
      last = String(position);
      const [, number = ""] = last.split(".");
      changes.push({ number, reference, revision });
    }
  }
  async function follow(): Promise<void> {
    while (!signal.aborted) {
      await read().catch((error: unknown) => {
        if (!(error instanceof ProviderError)) throw error;
        refusals.push(error.status);
      });
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
