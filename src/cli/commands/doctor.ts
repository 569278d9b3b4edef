import type { Command } from "commander";
import { ConfigurationError } from "../../domain/errors.ts";
import { findAddressProblem, trimAddress } from "../../runtime/config/providerAddress.ts";
import type { CheckFinding, Level } from "../doctor/check.ts";
import { diagnose } from "../doctor/diagnose.ts";
import type { Examination } from "../doctor/examine.ts";
import { ProblemsFoundError } from "../input/failure.ts";
import { readConfig } from "../input/session.ts";
import { makePaint, printJson, printLine, printNotice } from "../output/terminal.ts";
import type { Paint } from "../output/terminal.ts";

const NAME_WIDTH = 18;

interface Options {
  readonly url?: string;
  readonly json?: boolean;
}

export function register(program: Command): void {
  program
    .command("doctor")
    .description("examine configuration, database, queue, provider, webhooks and the state of the mirror")
    .option("--url <address>", "public address of the web process, as the provider knows it")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      "\nChanges nothing. Each finding comes with a fix. Exits with code 3 if there is a problem or an alert condition holds.",
    )
    .action(async (options: Options) => {
      const publicUrl = options.url === undefined ? null : readPublicUrl(options.url);
      const examination = await diagnose({ readConfig, publicUrl });
      if (options.json === true) printJson({ ...examination, ...countLevels(examination.findings) });
      else print(examination);
      if (
        examination.findings.some(({ level, condition }) => level === "problem" || condition !== undefined)
      ) {
        throw new ProblemsFoundError("doctor found problems");
      }
    });
}

function readPublicUrl(text: string): string {
  const parts = URL.canParse(text) ? new URL(text) : undefined;
  if (parts === undefined || !["http:", "https:"].includes(parts.protocol)) {
    throw new ConfigurationError(`--url ${findAddressProblem(text) ?? "must be a web address"}.`);
  }
  // Users paste the whole webhook address; keep only the part that all sources share.
  return trimAddress(text.replace(/\/webhooks(\/.*)?$/, ""));
}

function print({ findings, skipped }: Examination): void {
  const paint = makePaint(process.stdout);
  for (const { check, level, sentence, fix } of findings) {
    printLine(`${mark(level, paint)} ${check.padEnd(NAME_WIDTH)} ${sentence}`);
    if (fix !== undefined) printLine(`${" ".repeat(NAME_WIDTH + 3)}fix: ${fix}`);
  }
  if (skipped.length > 0) printNotice(`Skipped because a prerequisite is missing: ${skipped.join(", ")}.`);
  const { problems, warnings } = countLevels(findings);
  const counted = [describe(problems, "problem"), describe(warnings, "warning")].join(", ");
  printNotice(problems + warnings === 0 ? "All is well." : `${counted}.`);
}

function mark(level: Level, paint: Paint): string {
  if (level === "ok") return paint("green", "✔");
  return level === "warning" ? paint("yellow", "!") : paint("red", "✖");
}

function countLevels(findings: readonly CheckFinding[]) {
  const count = (wanted: Level) => findings.filter(({ level }) => level === wanted).length;
  return { problems: count("problem"), warnings: count("warning") };
}

function describe(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
