import { once } from "node:events";
import type { Command } from "commander";
import { withDatabase } from "../../mirror/openDatabase.ts";
import { makeLogger } from "../../process/telemetry/logger.ts";
import { startSandbox } from "../../sandbox/startSandbox.ts";
import { MARK } from "../../sandbox/world/state.ts";
import { readConfig } from "../input/session.ts";
import { makePaint, printJson, printLine, printNotice } from "../output/terminal.ts";
import { SCENARIOS, type ScenarioReport } from "../../sandbox/control/scenarios.ts";
import { findRunningDemo } from "../demo/demoFolder.ts";
import { commandOn, shellWord } from "../../domain/shellWord.ts";
import { ConfigurationError, UnavailableError } from "../../domain/errors.ts";
import type { Config } from "../../config/config.ts";
import { isOnThisMachine } from "../../config/sources.ts";

const HELP = `
It sends events to the webhook endpoints that you add:
  curl http://127.0.0.1:4010/_sandbox/webhooks -H 'content-type: application/json' \\
    -d '{"mode":"live","url":"http://127.0.0.1:3000/webhooks/live","secret":"whsec_…"}'
The page also sets its traffic and the speed of its couriers; GET /_sandbox/help lists all controls.`;

interface TriggerOptions {
  readonly order?: string;
  readonly json?: boolean;
}

/** `sandbox` runs only the provider, to develop an integration against; `trigger` makes it misbehave. */
export function register(program: Command): void {
  program
    .command("sandbox")
    .description("run only the sandbox provider, on SANDBOX_PORT of this machine")
    .addHelpText("after", HELP)
    .action(runSandbox);
  program
    .command("trigger")
    .argument("[scenario]", "name of the scenario; without it, lists all")
    .description("make the sandbox provider misbehave: lose an event, send it twice, be late …")
    .option("--order <reference>", "the affected order; default: a new one")
    .option("--json", "print JSON")
    .action((name: string | undefined, options: TriggerOptions) =>
      name === undefined ? list(options) : trigger(name, options),
    );
}

async function runSandbox(): Promise<void> {
  const config = readConfig();
  const logger = makeLogger({ level: config.logLevel, format: config.logFormat, service: "sandbox" });
  const { sandboxPort: port, sandboxSeed: seed } = config;
  await withDatabase(config, async ({ url: databaseUrl }, { start, onShutdown, signal }) => {
    const sandbox = await start(async () => {
      const started = await startSandbox({ databaseUrl, port, seed, logger });
      onShutdown("sandbox", () => started.close());
      return started;
    });
    printLine(`The sandbox answers on ${sandbox.url}; control it on ${sandbox.url}/_sandbox.`);
    printLine("Keys: dos_live_sandbox, dos_test_sandbox.");
    if (!signal.aborted) await once(signal, "abort");
  });
}

function list({ json, order }: TriggerOptions): void {
  if (order !== undefined) throw new ConfigurationError("--order needs the name of a scenario.");
  if (json === true) {
    printJson(SCENARIOS.map(({ name, summary, expect }) => ({ name, summary, expect })));
    return;
  }
  const paint = makePaint(process.stdout);
  for (const scenario of SCENARIOS) {
    printLine(paint("bold", scenario.name));
    printLine(`  ${scenario.summary}`);
    printLine(paint("dim", `  ${scenario.expect}`));
  }
  printNotice();
  printNotice("order-mirror trigger NAME [--order REFERENCE]");
}

async function trigger(name: string, { order, json }: TriggerOptions): Promise<void> {
  const config = readConfig();
  const sandboxUrl = findSandbox({ ...config, ...(await findRunningDemo(config.dataDir)) });
  const body = { scenario: name, reference: order };
  const report = await askSandbox<ScenarioReport>(sandboxUrl, { path: "/scenarios", body });
  if (json === true) return printJson(report);
  const { scenario, reference, from, to, summary, expect } = report;
  printLine(`${scenario}: order ${reference}, ${from === to ? from : `${from} → ${to}`}`);
  printLine(`  ${summary}`);
  printLine(`  Expected: ${expect}`);
  printNotice(`Next: order-mirror tail --order ${shellWord(reference)}`);
  printNotice(`      ${commandOn("order", reference)}`);
}

const ANSWER_TIMEOUT_MS = 15_000;
const START = "Start one with `order-mirror sandbox` or `order-mirror demo`; SANDBOX_PORT says where it is.";
const [MARK_HEADER] = Object.keys(MARK);

/** The configured provider if it is on this machine, or SANDBOX_PORT: a fault must never reach a real provider. */
function findSandbox({ sources, sandboxPort }: Pick<Config, "sources" | "sandboxPort">): string {
  return sources.map(({ baseUrl }) => baseUrl).find(isOnThisMachine) ?? `http://127.0.0.1:${sandboxPort}`;
}

/**
 * Calls the sandbox's control API. Throws ConfigurationError with the sandbox's message if it refuses, and
 * UnavailableError if nothing answers or the answer is not a sandbox's.
 */
export async function askSandbox<Result>(
  sandboxUrl: string,
  { path, body }: { path: string; body: unknown },
): Promise<Result> {
  const answer = await fetch(`${sandboxUrl}/_sandbox${path}`, {
    method: "POST",
    redirect: "error",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
  }).catch((cause: unknown) => {
    throw new UnavailableError(`No sandbox answers on ${sandboxUrl}.`, { cause, fix: START });
  });
  if (answer.headers.get(MARK_HEADER ?? "") === null) {
    throw new UnavailableError(`The server on ${sandboxUrl} is not a sandbox.`, { fix: START });
  }
  const json = (await answer.json()) as unknown;
  if (answer.ok) return json as Result;
  const { error } = json as { error?: { message?: unknown } };
  const message = typeof error?.message === "string" ? error.message : `Its status was ${answer.status}.`;
  if (answer.status >= 500) throw new UnavailableError(`The sandbox failed: ${message}`);
  throw new ConfigurationError(message);
}
