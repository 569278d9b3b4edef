import { createMirrorClient } from "../../../src/client/mirrorClient.ts";
import { ProviderError } from "../../../src/provider/errors.ts";
import { systemClock } from "../../../src/process/clock.ts";

const RETRY_MS = 200;

/** A change as a reader got it. */
export interface FollowedChange {
  readonly number: string;
  readonly reference: string;
  readonly revision: number;
}

export type FeedFollower = ReturnType<typeof followFeed>;

/** Follows the feed of the mirror at `url` from the beginning, with the product's own client. */
export function followFeed(url: string) {
  const mirror = createMirrorClient({ baseUrl: url });
  const changes: FollowedChange[] = [];
  const refusals: (number | null)[] = [];
  const stopping = new AbortController();
  const { signal } = stopping;
  let last = "beginning";

  async function read(): Promise<void> {
    for await (const { position, reference, revision } of mirror.changes({ after: last, signal })) {
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
    /** In the sequence of arrival. */
    changes,
    /** Answers that asked the reader to start again or reported a mistake of the reader. */
    refusals,
    async stop() {
      stopping.abort();
      await following;
    },
  };
}
