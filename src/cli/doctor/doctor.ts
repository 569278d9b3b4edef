/**
 * `doctor`: examines everything from outside in and says what is wrong, and how to mend it. `diagnose` runs the checks
 * of `checks.ts`, first those of the server; a check is one function. What the mirror itself reports comes from
 * `health`.
 */
import type { Command } from "commander";
import { withPool } from "../../database/database.ts";
import { ConfigurationError } from "../../domain/errors.ts";
import type { Health } from "../../health/health.ts";
import { checkScheme, isForeignSecret } from "../../signature/verifier.ts";
import { withDatabase } from "../../mirror/openDatabase.ts";
import type { Config } from "../../config/config.ts";
import { describeConfig, ENVIRONMENT, listUnknownVariables } from "../../config/environment.ts";
import { trimAddress } from "../../config/kinds.ts";
import { readHealth } from "../commands/status.ts";
import { configureHere } from "../demo/demoFolder.ts";
import { readConfig } from "../input/session.ts";
import {
  ProblemsFoundError,
  countOf,
  makePaint,
  printJson,
  printLine,
  printNotice,
} from "../output/terminal.ts";
import {
  CONTENT_CHECKS,
  examine,
  SERVER_CHECKS,
  toRemark,
  type CheckFinding,
  type Level,
  type Patient,
} from "./checks.ts";

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
      "\nChanges nothing. Each finding comes with a fix. Exits with code 3 if there is a problem; warnings alone exit with 0.",
    )
    .action(async (options: Options) => {
      const publicUrl = options.url === undefined ? null : readPublicUrl(options.url);
      const examination = await diagnose({ readConfig, publicUrl });
      const count = (wanted: Level) => examination.findings.filter(({ level }) => level === wanted).length;
      const [problems, warnings] = [count("problem"), count("warning")];
      if (options.json === true) printJson({ ...examination, problems, warnings });
      else print(examination, problems, warnings);
      if (problems > 0) throw new ProblemsFoundError("doctor found problems");
    });
}

function readPublicUrl(text: string): string {
  if (!/^https?:\/\//.test(text) || !URL.canParse(text))
    throw new ConfigurationError("--url must start with https:// or http://.");
  // Users paste the whole webhook address; keep only the part that all sources share.
  return trimAddress(text.replace(/\/webhooks(\/.*)?$/, ""));
}

function print({ findings, skipped }: Examination, problems: number, warnings: number): void {
  const paint = makePaint(process.stdout);
  const marks = { ok: paint("green", "✔"), warning: paint("yellow", "!"), problem: paint("red", "✖") };
  for (const { check, level, sentence, fix } of findings) {
    printLine(`${marks[level]} ${check.padEnd(NAME_WIDTH)} ${sentence}`);
    if (fix !== undefined) printLine(`${" ".repeat(NAME_WIDTH + 3)}fix: ${fix}`);
  }
  if (skipped.length > 0) printNotice(`Skipped because a prerequisite is missing: ${skipped.join(", ")}.`);
  const counted = `${countOf(problems, "problem")}, ${countOf(warnings, "warning")}.`;
  printNotice(problems + warnings === 0 ? "All is well." : counted);
}

export interface Examination {
  readonly findings: readonly CheckFinding[];
  /** Names of the checks that were skipped because their prerequisites are missing. */
  readonly skipped: readonly string[];
}

const DOCTOR_POOL = { purpose: "doctor", max: 4, statementTimeoutMs: 8_000 };

/**
 * Runs all checks that can run. An invalid configuration or an unreachable database becomes a finding, and the checks
 * that need it are skipped. `publicUrl` is the web process's address as the provider knows it.
 */
export async function diagnose(from: {
  readConfig: () => Config;
  publicUrl: string | null;
}): Promise<Examination> {
  const { publicUrl } = from;
  let config: Config;
  try {
    config = from.readConfig();
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    const findings = error.message.split("\n").map(toConfigFinding);
    return { findings, skipped: Object.keys({ ...SERVER_CHECKS, ...CONTENT_CHECKS }) };
  }
  const about = describeConfiguration(config);
  let isOpen = false;
  try {
    config = await configureHere(config);
    return await withDatabase(config, (database) => {
      isOpen = true;
      return withPool({ url: database.url, ...DOCTOR_POOL }, (pool) => {
        let read: Promise<Health> | undefined;
        const health = () => (read ??= readHealth({ config, pool, databaseUrl: database.url }));
        return examineAll({ config, database, publicUrl, pool, health }, about);
      });
    });
  } catch (error) {
    if (isOpen) throw error;
    const findings = [...about, { check: "postgres", ...toRemark(error) }];
    return { findings, skipped: ["migrations", ...Object.keys(CONTENT_CHECKS)] };
  }
}

async function examineAll(patient: Patient, about: readonly CheckFinding[]): Promise<Examination> {
  const first = [...about, ...(await examine(patient, SERVER_CHECKS))];
  if (first.some(({ check, level }) => check === "migrations" && level === "problem"))
    return { findings: first, skipped: Object.keys(CONTENT_CHECKS) };
  return { findings: [...first, ...(await examine(patient, CONTENT_CHECKS))], skipped: [] };
}

function describeConfiguration(config: Config): CheckFinding[] {
  const set = describeConfig(ENVIRONMENT).filter(({ source }) => source !== "default").length;
  const sources = config.sources.map(({ sourceId }) => sourceId).join(", ") || "none";
  const sentence = `Variables set: ${set}. Sources set: ${sources}. \`order-mirror config\` shows them.`;
  const unknown = listUnknownVariables(ENVIRONMENT).map((name): CheckFinding => ({
    check: "configuration",
    level: "warning",
    sentence: `${name} It has no effect.`,
    fix: "Correct or remove it; .env.example has every variable.",
  }));
  const foreign = config.sources
    .filter(({ webhookScheme, webhookSecrets }) => isForeignSecret(webhookScheme, webhookSecrets))
    .map(({ sourceId, webhookScheme, webhookSecrets }): CheckFinding => ({
      check: "configuration",
      level: "problem",
      sentence: `${sourceId}: every event is refused. ${checkScheme(webhookScheme, webhookSecrets)[0]}`,
      fix: "Copy the secret from the provider again. If it is right, set CAPTURE_REFUSED=10 for web and run `order-mirror identify-signature` after the next event.",
    }));
  return [{ check: "configuration", level: "ok", sentence }, ...unknown, ...foreign];
}

/** Each line of a configuration error states the problem and then, in a second sentence, the fix. */
function toConfigFinding(line: string): CheckFinding {
  const at = line.indexOf(". ");
  const check = "configuration";
  return at === -1
    ? { check, level: "problem", sentence: line, fix: "Correct it; .env.example explains every variable." }
    : { check, level: "problem", sentence: line.slice(0, at + 1), fix: line.slice(at + 2) };
}
