import { failureOf } from "../../domain/source/errors.ts";
import type { PollDeps } from "./deps.ts";

/**
 * Sees to it that the provider's clock is known before a window is made of it: with the local clock some minutes
 * ahead, the cursor would pass changes that are still to come.
 *
 * The branches are asked for since that costs nothing of the list rate; what they are does not matter. A provider
 * that sends no `Date` at all leaves the local clock, less a margin.
 */
export async function synchronizeClock(
  client: Pick<PollDeps["client"], "listBranches" | "providerClock">,
  signal: AbortSignal,
): Promise<void> {
  if (client.providerClock.isSynchronized()) return;
  try {
    await client.listBranches({}, { priority: "poll", signal });
  } catch (error) {
    signal.throwIfAborted();
    // Any answer tells the time; but with a key that is refused there is nothing to tell it for.
    if (failureOf(error) === "key_refused" || !client.providerClock.isSynchronized()) throw error;
  }
}
