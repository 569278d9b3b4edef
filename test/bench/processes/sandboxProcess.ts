import { runService } from "../../../src/cli/input/service.ts";
import { readConfig } from "../../../src/cli/input/session.ts";
import { startSandbox } from "../../../src/sandbox/startSandbox.ts";

/** The provider as a separate process, with its real rate limits, at rest. Sends its address first. */
await runService({
  service: "bench sandbox",
  config: readConfig(),
  migrates: false,
  async start({ databaseUrl, shutdown }) {
    const sandbox = await startSandbox({ databaseUrl, port: 0, seed: 1, speed: 0 });
    shutdown.onShutdown("sandbox", () => sandbox.close());
    process.send?.(sandbox.url);
  },
});
