import { randomBytes, randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { z } from "zod";
import { ConfigurationError, UnavailableError } from "../domain/errors.ts";
import { describeFailure, isFullDisk } from "../process/dataFolder.ts";
import { withProcessLock } from "../process/processLock.ts";
import type { Config } from "./config.ts";
import { shellWord } from "../domain/shellWord.ts";

const FILE = "credentials.json";
const SECRET_BYTES = 24;
/** Permission bits of everybody but the owner of the file. */
const OTHERS = 0o077;

const storedSchema = z.strictObject({
  /** Each source's token. */
  apiTokens: z.record(z.string(), z.string()).default({}),
  opsPassword: z.string().optional(),
  opsViewerPassword: z.string().optional(),
  metricsToken: z.string().optional(),
});
type Stored = z.output<typeof storedSchema>;

/** Credentials that were created because none were configured; those that were not created now are absent. */
export type MadeCredentials = Partial<Stored> & Required<Pick<Stored, "apiTokens">>;

/**
 * Adds the tokens and passwords that are not configured: they are created at the first start and kept in DATA_DIR, in a
 * file that only this account can read. So nothing is open by default. With LOCAL_TRUST nothing is created. Throws
 * ConfigurationError if the file cannot be written or others can read it, and UnavailableError if its disk is full.
 */
export async function provideCredentials(config: Config): Promise<{
  config: Config;
  /** Undefined: nothing was missing, or all of it was created at an earlier start. */
  made: MadeCredentials | undefined;
  file: string;
}> {
  const file = path.resolve(config.dataDir, FILE);
  // A missing METRICS_TOKEN alone does not justify a file: nobody can then read the metrics.
  const isLacking = config.apiTokens.length === 0 || needsOpsPassword(config);
  if (config.localTrust || !isLacking) return { config, made: undefined, file };
  try {
    mkdirSync(path.dirname(file), { recursive: true });
    // Several processes may start in one new folder: the second finds what the first has created.
    return await withProcessLock(`${file}-lock`, () => Promise.resolve(readOrMake(config, file)));
  } catch (error) {
    if (error instanceof ConfigurationError) throw error;
    // The lock's own error has the system's as its cause.
    const cause = error instanceof UnavailableError ? (error.cause ?? error) : error;
    const sentence = `The new tokens and passwords cannot be stored in ${file}: ${describeFailure(cause)}.`;
    const fix = "Set API_TOKENS and OPS_PASSWORD, or make DATA_DIR a folder that this account can write to.";
    throw isFullDisk(cause)
      ? new UnavailableError(sentence, {
          cause,
          fix: "Free space there, or set API_TOKENS and OPS_PASSWORD.",
        })
      : new ConfigurationError(sentence, { cause, fix });
  }
}

function readOrMake(config: Config, file: string) {
  const stored = readStored(file);
  const made = makeMissing(config, stored);
  const hasMade = Object.keys(made).length > 1 || Object.keys(made.apiTokens).length > 0;
  const all = { ...stored, ...made, apiTokens: { ...stored.apiTokens, ...made.apiTokens } };
  if (hasMade) {
    // Written to a draft and renamed, so that the file is never incomplete.
    const draft = `${file}.${randomUUID()}`;
    writeFileSync(draft, `${JSON.stringify(all, null, 2)}\n`, { mode: 0o600 });
    renameSync(draft, file);
  }
  return { config: withStored(config, all), made: hasMade ? made : undefined, file };
}

/** With single sign-on, nobody needs a shared password. */
function needsOpsPassword({ opsPassword, signOn }: Config): boolean {
  return opsPassword === null && signOn === null;
}

function makeMissing(config: Config, stored: Stored): MadeCredentials {
  const sources = config.apiTokens.length > 0 ? [] : config.sources;
  const untold = sources.filter(({ sourceId }) => !Object.hasOwn(stored.apiTokens, sourceId));
  const needed = {
    opsPassword: needsOpsPassword(config),
    opsViewerPassword: needsOpsPassword(config) && config.opsViewerPassword === null,
    metricsToken: config.metricsToken === null,
  };
  const names = Object.keys(needed) as (keyof typeof needed)[];
  const missing = names.filter((name) => needed[name] && stored[name] === undefined);
  return {
    apiTokens: Object.fromEntries(untold.map(({ sourceId }) => [sourceId, makeSecret()])),
    ...Object.fromEntries(missing.map((name) => [name, makeSecret()])),
  };
}

/** Configured values win. A password for viewers alone still leaves operators without one, so one is created. */
function withStored(config: Config, stored: Stored): Config {
  const { apiTokens, opsPassword, opsViewerPassword, metricsToken } = config;
  const made = needsOpsPassword(config) ? stored : undefined;
  const ownTokens = config.sources.flatMap(({ sourceId }) => {
    const token = stored.apiTokens[sourceId];
    return token === undefined ? [] : [{ token, sourceId, mayWrite: false }];
  });
  return {
    ...config,
    apiTokens: apiTokens.length > 0 ? apiTokens : ownTokens,
    opsPassword: opsPassword ?? made?.opsPassword ?? null,
    opsViewerPassword: opsViewerPassword ?? made?.opsViewerPassword ?? null,
    metricsToken: metricsToken ?? stored.metricsToken ?? null,
  };
}

function makeSecret(): string {
  return randomBytes(SECRET_BYTES).toString("base64url");
}

function readStored(file: string): Stored {
  if (!existsSync(file)) return { apiTokens: {} };
  if (process.platform !== "win32" && (statSync(file).mode & OTHERS) !== 0) {
    throw new ConfigurationError(`Other accounts can read ${file}, which holds passwords.`, {
      fix: `Run chmod 600 ${shellWord(file)}. If somebody may have read it, remove the file instead: new credentials are then created.`,
    });
  }
  try {
    return storedSchema.parse(JSON.parse(readFileSync(file, "utf8")));
  } catch (error) {
    throw new ConfigurationError(`The file ${file} cannot be read, or has other content than tokens.`, {
      cause: error,
      fix: "Correct it, or remove it: new tokens and passwords are then created.",
    });
  }
}
