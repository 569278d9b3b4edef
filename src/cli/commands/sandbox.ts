import type { Command } from "commander";
import { openDatabase } from "../../bin/openDatabase.ts";
import { makeLogger } from "../../runtime/logger.ts";
import { makeShutdown } from "../../runtime/shutdown.ts";
import { startSandbox } from "../../sandbox/startSandbox.ts";
import { readConfig } from "../session.ts";
import { printLine } from "../terminal.ts";

/** `sandbox`: the provider alone, to develop an integration against. */
export function addSandboxCommand(program: Command): void {
  program
    .command("sandbox")
    .description("run the provider as a sandbox, alone, on SANDBOX_PORT")
    .option("--traffic <orders>", "orders per minute that the seeded business creates by itself", "0")
    .action(async (options: { traffic: string }) => {
      const config = readConfig();
      const logger = makeLogger({
        level: config.logLevel,
        format: config.logFormat,
        service: "sandbox",
        destination: "stderr",
      });
      const shutdown = makeShutdown({ logger });
      shutdown.listen();
      try {
        const database = await openDatabase(config);
        shutdown.onShutdown("database", () => database.close());
        const sandbox = await startSandbox({
          databaseUrl: database.url,
          host: "127.0.0.1",
          port: config.sandboxPort,
          seed: config.sandboxSeed,
          trafficPerMinute: Number(options.traffic),
          logger,
        });
        shutdown.onShutdown("sandbox", () => sandbox.close());
        printLine(`The sandbox answers on ${sandbox.url}; control it on ${sandbox.url}/_sandbox.`);
        printLine("Keys: dos_live_sandbox, dos_test_sandbox.");
      } catch (error) {
        if (shutdown.signal.aborted) return;
        await shutdown.run("the start failed");
        throw error;
      }
    });
}
