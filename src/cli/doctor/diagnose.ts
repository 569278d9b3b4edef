import { openDatabase } from "../../roles/start/openDatabase.ts";
import { ConfigurationError } from "../../domain/errors.ts";
import { withPool } from "../../database/database.ts";
import { systemClock } from "../../runtime/lifecycle/clock.ts";
import { describeConfig } from "../../runtime/config/config.ts";
import type { Config } from "../../runtime/config/config.ts";
import { ENVIRONMENT } from "../../runtime/config/processEnvironment.ts";
import { makeLogger } from "../../runtime/telemetry/logger.ts";
import { configureHere } from "../demo/demoFolder.ts";
import type { Health } from "../../health/health.ts";
import { readHealth } from "../input/health.ts";
import { toRemark } from "./check.ts";
import type { Check, CheckFinding } from "./check.ts";
import { examine } from "./examine.ts";
import type { Examination } from "./examine.ts";
import {
  commitCheck,
  coverageCheck,
  eventsCheck,
  outgoingCheck,
  pollerCheck,
  quarantineCheck,
  queueCheck,
  workerCheck,
} from "./mirrorChecks.ts";
import { providerCheck } from "./providerCheck.ts";
import { loginCheck, migrationsCheck, postgresCheck, readerCheck } from "./serverChecks.ts";
import { secretsCheck } from "./secretsCheck.ts";
import { singleReadCheck } from "./singleReadCheck.ts";
import { endpointCheck } from "./webhookChecks.ts";

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
