import type { Command } from "commander";
import type { ScenarioReport } from "../../sandbox/control/scenarios.ts";
import { SCENARIOS } from "../../sandbox/control/scenarios.ts";
import { findRunningDemo } from "../demo/demoFolder.ts";
import { askSandbox, findSandbox } from "../input/sandboxControl.ts";
import { readConfig } from "../input/session.ts";
import { makePaint, printJson, printLine, printNotice } from "../output/terminal.ts";
import { commandOn, shellWord } from "../../domain/shellWord.ts";

interface Options {
  readonly order?: string;
  readonly url?: string;
  readonly json?: boolean;
}

export function register(program: Command): void {
  program
    .command("trigger")
    .argument("[scenario]", "name of the scenario; without it, lists all")
    .description("make the sandbox provider misbehave: lose an event, send it twice, be late …")
    .option("--order <reference>", "the affected order; default: a new one")
    .option(
      "--url <address>",
      "the sandbox's address; default: that of the demo in this folder, or SANDBOX_PORT on this machine",
    )
    .option("--json", "print JSON")
    .action(async (name: string | undefined, options: Options) => {
      if (name === undefined) {
        list(options);
        return;
      }
      const config = readConfig();
      const demo = await findRunningDemo(config.dataDir);
      const sandboxUrl = findSandbox(options.url, { ...config, ...demo });
      const report = await askSandbox<ScenarioReport>(sandboxUrl, {
        path: "/scenarios",
        body: { scenario: name, reference: options.order },
      });
      if (options.json === true) printJson(report);
      else printReport(report);
    });
}

function list({ json }: Options): void {
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

function printReport(report: ScenarioReport): void {
  const { scenario, reference, from, to, summary, expect } = report;
  const move = from === to ? from : `${from} → ${to}`;
  printLine(`${scenario}: order ${reference}, ${move}`);
  printLine(`  ${summary}`);
  printLine(`  Expected: ${expect}`);
  printNotice(`Next: order-mirror tail --order ${shellWord(reference)}`);
  printNotice(`      ${commandOn("order", reference)}`);
}
