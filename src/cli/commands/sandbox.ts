import { InvalidArgumentError, Option } from "commander";
import type { Command } from "commander";
import { openDatabase } from "../../roles/start/openDatabase.ts";
import { makeLogger } from "../../runtime/telemetry/logger.ts";
import { makeShutdown } from "../../runtime/lifecycle/shutdown.ts";
import { startSandbox } from "../../sandbox/startSandbox.ts";
import { describeProvider } from "../../api/openapiProvider.ts";
import { DECISIONS, readDecision } from "../../sandbox/world/state.ts";
import type { Decisions } from "../../sandbox/world/state.ts";
import { readConfig } from "../input/session.ts";
import { printJson, printLine } from "../output/terminal.ts";

/** The limit of the sandbox's control page. */
const AMOUNT_MAX = 100_000;

const HELP = `
It sends events to the webhook endpoints that you add, here or on its page:
  curl http://127.0.0.1:4010/_sandbox/webhooks -H 'content-type: application/json' \\
    -d '{"mode":"live","url":"http://127.0.0.1:3000/webhooks/live","secret":"whsec_…"}'
GET /_sandbox/help lists its other controls.`;

/** `sandbox`: runs only the provider, to develop an integration against. */
export function register(program: Command): void {
  const command = program
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
    .option(
      "--host <address>",
      "the address to listen on; its control page answers this machine only",
      "127.0.0.1",
    )
    .option("--utc-offset <minutes>", "offset of its timestamps, in minutes", parseOffset, 60)
    .addOption(
      new Option("--rate-window <kind>", "how it counts requests")
        .choices(["fixed", "sliding"])
        .default("fixed"),
    )
    .addOption(
      new Option("--clock <kind>", "virtual: stands still until POST /_sandbox/clock moves it")
        .choices(["real", "virtual"])
        .default("real"),
    )
    .option(
      "--decide <name=value>",
      `what the provider's specification leaves open: ${describeDecisions()}; the first value of each is the default; repeat it for several`,
      addDecision,
      {},
    )
    .addHelpText("after", HELP)
    .action(runSandbox);
  command
    .command("openapi")
    .description("print the OpenAPI 3.1 document of the provider, as the sandbox answers")
    .action(() => printJson(describeProvider()));
}

async function runSandbox(options: SandboxCommandOptions): Promise<void> {
  const config = readConfig();
  const logger = makeLogger({ level: config.logLevel, format: config.logFormat, service: "sandbox" });
  const shutdown = makeShutdown({ logger });
  shutdown.listen();
  try {
    const database = await openDatabase(config);
    shutdown.onShutdown("database", () => database.close());
    const sandbox = await startSandbox({
      databaseUrl: database.url,
      host: options.host,
      port: config.sandboxPort,
      seed: config.sandboxSeed,
      trafficPerMinute: options.traffic,
      speed: options.speed,
      utcOffsetMinutes: options.utcOffset,
      rateWindow: options.rateWindow,
      clock: options.clock,
      decisions: options.decide,
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
}

interface SandboxCommandOptions {
  readonly traffic: number;
  readonly speed: number;
  readonly host: string;
  readonly utcOffset: number;
  readonly rateWindow: "fixed" | "sliding";
  readonly clock: "real" | "virtual";
  readonly decide: Partial<Decisions>;
}

function describeDecisions(): string {
  return Object.entries(DECISIONS)
    .map(([name, values]) => `${name}=${values.join("|")}`)
    .join(", ");
}

function addDecision(text: string, others: Partial<Decisions>): Partial<Decisions> {
  const decision = readDecision(text);
  if (decision === undefined) throw new InvalidArgumentError(`It must be one of ${describeDecisions()}.`);
  return { ...others, ...decision };
}

/** The largest offsets in use. */
const OFFSET_MAX_MINUTES = 14 * 60;

function parseOffset(text: string): number {
  const minutes = /^[+-]?\d{1,3}$/.test(text) ? Number(text) : Number.NaN;
  if (Math.abs(minutes) <= OFFSET_MAX_MINUTES) return minutes;
  throw new InvalidArgumentError(
    `It must be a whole number from -${OFFSET_MAX_MINUTES} to ${OFFSET_MAX_MINUTES}.`,
  );
}

function parseAmount(text: string): number {
  const amount = text.trim() === "" ? Number.NaN : Number(text);
  if (amount >= 0 && amount <= AMOUNT_MAX) return amount;
  throw new InvalidArgumentError(`It must be a number from 0 to ${AMOUNT_MAX}.`);
}
