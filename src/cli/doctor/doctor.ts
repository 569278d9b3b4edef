import type { Command } from "commander";
import { ConfigurationError } from "../../domain/errors.ts";
import { findAddressProblem, trimAddress } from "../../runtime/config/providerAddress.ts";
import { examine, toRemark } from "./check.ts";
import type { Check, CheckFinding, Examination, Level } from "./check.ts";
import {
  countOf,
  ProblemsFoundError,
  makePaint,
  printJson,
  printLine,
  printNotice,
} from "../output/terminal.ts";
import type { Paint } from "../output/terminal.ts";
import { readConfig } from "../input/session.ts";
import { openDatabase } from "../../roles/openDatabase.ts";
import { withPool } from "../../database/database.ts";
import { systemClock } from "../../runtime/lifecycle/clock.ts";
import { describeConfig } from "../../runtime/config/config.ts";
import type { Config } from "../../runtime/config/config.ts";
import { ENVIRONMENT } from "../../runtime/config/processEnvironment.ts";
import { makeLogger } from "../../runtime/telemetry/logger.ts";
import { configureHere } from "../demo/demoFolder.ts";
import type { Health } from "../../health/health.ts";
import { readHealth } from "../commands/status.ts";
import {
  commitCheck,
  coverageCheck,
  eventsCheck,
  outgoingCheck,
  pollerCheck,
  quarantineCheck,
  queueCheck,
  singleReadCheck,
  workerCheck,
} from "./mirrorChecks.ts";
import { endpointCheck, providerCheck } from "./outsideChecks.ts";
import { loginCheck, migrationsCheck, postgresCheck, readerCheck, secretsCheck } from "./serverChecks.ts";

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
  const counted = [countOf(problems, "problem"), countOf(warnings, "warning")].join(", ");
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

/** All checks, in the order of the output. */
const CHECKS: readonly Check[] = [
  postgresCheck,
  migrationsCheck,
  loginCheck,
  readerCheck,
  secretsCheck,
  commitCheck,
  queueCheck,
  providerCheck,
  endpointCheck,
  eventsCheck,
  workerCheck,
  pollerCheck,
  coverageCheck,
  quarantineCheck,
  singleReadCheck,
  outgoingCheck,
];

const CONNECTIONS = 4;
const STATEMENT_TIMEOUT_MS = 8_000;

/**
 * Runs all checks that can run. An invalid configuration or an unreachable database becomes a finding, and the checks
 * that need it are skipped. `publicUrl` is the web process's address as the provider knows it.
 */
export async function diagnose(from: {
  readConfig: () => Config;
  publicUrl: string | null;
}): Promise<Examination> {
  const { readConfig, publicUrl } = from;
  let config: Config;
  try {
    config = readConfig();
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    const findings = error.message.split("\n").map(toConfigFinding);
    return { findings, skipped: CHECKS.map(({ name }) => name) };
  }
  const about = describeConfiguration(config);
  let database;
  try {
    config = await configureHere(config);
    database = await openDatabase(config);
  } catch (error) {
    const findings = [about, { check: "postgres", ...toRemark(error) }];
    return { findings, skipped: CHECKS.slice(1).map(({ name }) => name) };
  }
  const logger = makeLogger({ level: "fatal", format: config.logFormat, service: "doctor" });
  const { url } = database;
  const options = { url, purpose: "doctor", max: CONNECTIONS, statementTimeoutMs: STATEMENT_TIMEOUT_MS };
  try {
    const { findings, skipped } = await withPool(options, (pool) => {
      let read: Promise<Health> | undefined;
      const health = () => (read ??= readHealth({ config, pool, databaseUrl: url }));
      return examine({ config, database, pool, clock: systemClock, logger, publicUrl, health }, CHECKS);
    });
    return { findings: [about, ...findings], skipped };
  } finally {
    await database.close();
  }
}

function describeConfiguration(config: Config): CheckFinding {
  const set = describeConfig(config, ENVIRONMENT).filter(({ source }) => source !== "default").length;
  const sources = config.sources.map(({ sourceId }) => sourceId).join(", ") || "none";
  return {
    check: "configuration",
    level: "ok",
    sentence: `Variables set: ${set}. Sources: ${sources}. \`order-mirror config\` shows them.`,
  };
}

/** Each line of a configuration error states the problem and then, in a second sentence, the fix. */
function toConfigFinding(line: string): CheckFinding {
  const at = line.indexOf(". ");
  const check = "configuration";
  return at === -1
    ? { check, level: "problem", sentence: line, fix: "Correct it; .env.example explains every variable." }
    : { check, level: "problem", sentence: line.slice(0, at + 1), fix: line.slice(at + 2) };
}
