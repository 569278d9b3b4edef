import { rm } from "node:fs/promises";
import { makeRefusedRequests, refusedFolder } from "../../receive/refusedRequests.ts";
import type { RefusedRequests } from "../../receive/refusedRequests.ts";
import { makeLoop } from "../../runtime/lifecycle/loop.ts";
import { openDataFolder } from "../../runtime/dataFolder.ts";
import type { RoleDeps } from "../role.ts";

const PRUNE_EVERY_MS = 600_000;

/**
 * Keeps refused webhook requests for `identify-signature` while CAPTURE_REFUSED is set; without it removes what was kept, and
 * returns undefined. Throws ConfigurationError when the folder cannot be written to.
 */
export async function captureRefused({
  config,
  clock,
  logger,
  shutdown,
}: Pick<RoleDeps, "config" | "clock" | "logger" | "shutdown">): Promise<RefusedRequests["keep"] | undefined> {
  const folder = refusedFolder(config.dataDir);
  if (config.captureRefused === 0) {
    await rm(folder, { recursive: true, force: true });
    return undefined;
  }
  await openDataFolder(folder);
  const refused = makeRefusedRequests({ folder, limit: config.captureRefused, clock, logger });
  const onError = (error: unknown) => logger.warn({ err: error }, "refused requests could not be removed");
  const loop = makeLoop({ run: refused.prune, everyMs: PRUNE_EVERY_MS, onError, clock });
  loop.start();
  shutdown.onShutdown("refused requests", loop.stop);
  logger.warn(
    { folder, limit: config.captureRefused },
    "refused webhook requests are kept, bodies and all; unset CAPTURE_REFUSED when the scheme is found",
  );
  return refused.keep;
}
