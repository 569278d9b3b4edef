import { InvalidArgumentError } from "commander";
import type { Command } from "commander";
import { openDatabase } from "../../roles/start/openDatabase.ts";
import { makeLogger } from "../../runtime/telemetry/logger.ts";
import { makeShutdown } from "../../runtime/lifecycle/shutdown.ts";
import { startSandbox } from "../../sandbox/startSandbox.ts";
import { readConfig } from "../input/session.ts";
import { printLine } from "../output/terminal.ts";

/** The limit of the sandbox's control page. */
const AMOUNT_MAX = 100_000;

/** `sandbox`: runs only the provider, to develop an integration against. */
export function addSandboxCommand(program: Command): void {
  program
    .command("sandbox")
    .description("run only the sandbox provider, on SANDBOX_PORT")
    .option(
      "--traffic <orders>",
      "orders per minute that the seeded business creates automatically",
      parseAmount,
      0,
    )
    .option(
      "--speed <factor>",
      "how much faster than real time couriers move; 0: they do not move",
      parseAmount,
      1,
    )
    .action(async (options: { traffic: number; speed: number }) => {
      const config = readConfig();
      const logger = makeLogger({ level: config.logLevel, format: config.logFormat, service: "sandbox" });
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
          trafficPerMinute: options.traffic,
          speed: options.speed,
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

function parseAmount(text: string): number {
  const amount = text.trim() === "" ? Number.NaN : Number(text);
  if (amount >= 0 && amount <= AMOUNT_MAX) return amount;
  throw new InvalidArgumentError(`It must be a number from 0 to ${AMOUNT_MAX}.`);
}
