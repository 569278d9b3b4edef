import {
  ALL_ADDRESSES,
  composeMirror,
  type MirrorDeps,
  type Parts,
} from "../../../src/mirror/createMirror.ts";
import { serve } from "../../../src/mirror/serve.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";

/** A mirror as the product composes it, with these parts, served at the host and port of its configuration. */
export async function openServedMirror(deps: Omit<MirrorDeps, "logger">, parts: Parts = {}) {
  const mirror = composeMirror({ ...deps, logger: silentLogger }, ALL_ADDRESSES);
  const server = await serve(mirror, deps.config, silentLogger);
  await mirror.start(parts);
  return {
    url: server.url,
    close: async () => void (await Promise.all([mirror.close(), server.close()])),
  };
}
