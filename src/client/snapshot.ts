import { addSeconds, parseInstant } from "../domain/order/instant.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { ProviderAnswer, ProviderRequest } from "../provider/exchange.ts";
import type { SendRequest } from "../provider/transport.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import type { Change } from "./change.ts";
import { readPages } from "./orderList.ts";

/** Longer than any transaction of the mirror lasts that changes orders. */
const UNSEEN_SECONDS = 600;

/** Which states of orders a snapshot has shown, although the feed will bring them. */
export interface Shown {
  /** Whether the snapshot has shown this state of the order or a later one. */
  has(change: Pick<Change, "reference" | "revision">): boolean;
  add(change: Pick<Change, "reference" | "revision">): void;
  /** The feed has caught up: what it has not brought within UNSEEN_SECONDS was before its start. */
  expireSoon(): void;
}

export function makeShown(clock: Pick<Clock, "monotonicMs">): Shown {
  const revisions = new Map<string, number>();
  let untilMs = Infinity;
  return {
    has({ reference, revision }) {
      if (clock.monotonicMs() > untilMs) revisions.clear();
      const shown = revisions.get(reference);
      if (shown === undefined || revision <= shown) return shown !== undefined;
      revisions.delete(reference);
      return false;
    },
    add({ reference, revision }) {
      revisions.set(reference, revision);
    },
    expireSoon() {
      untilMs = clock.monotonicMs() + UNSEEN_SECONDS * 1_000;
    },
  };
}

/**
 * All orders, each once, by when the mirror first saw them: nothing moves in that order. `shown` learns of the states
 * that are younger than the start of the walk, or nearly: only those can be in the feed behind it.
 */
export async function* readSnapshot(deps: {
  ask: (request: ProviderRequest) => Promise<ProviderAnswer>;
  shown: Shown;
}): AsyncGenerator<Change, void, void> {
  const { ask, shown } = deps;
  let young: Instant | undefined;
  const send: SendRequest = async (request) => {
    const answer = await ask(request);
    young ??= addSeconds(answer.requestedAt, -UNSEEN_SECONDS);
    return answer;
  };
  for await (const page of readPages(send, { sort: "firstSeenAt", revisions: 1 }, undefined)) {
    for (const [index, order] of page.orders.entries()) {
      const listed = page.revisions[index];
      if (listed === undefined)
        throw new TypeError("the mirror lists no revisions: it is of an older release");
      const { revision, changedAt } = listed;
      const { reference, status, updatedAt } = order;
      if (young === undefined || parseInstant(changedAt) >= young) shown.add({ reference, revision });
      yield {
        position: null,
        reference,
        revision,
        status,
        previousStatus: null,
        verdict: "snapshot",
        cause: null,
        updatedAt,
        changedAt,
        changedFields: null,
        before: null,
        after: order,
      };
    }
  }
}
