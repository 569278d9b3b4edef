import { failureOf } from "../../domain/source/errors.ts";
import type { PollDeps } from "./deps.ts";

/**
 * Ensures that the provider's clock is known before a window is derived from it: with a local clock some minutes ahead,
 * the cursor would pass changes that are still to come.
 *
 * It requests the branches, because that costs nothing of the list rate; their content does not matter. If the provider
 * sends no `Date` at all, the local clock minus a margin is used.
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
    // Any answer shows the time; but if the key is refused, the time is of no use.
    if (failureOf(error) === "key_refused" || !client.providerClock.isSynchronized()) throw error;
  }
}
