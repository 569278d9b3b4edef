import { randomBytes } from "node:crypto";
import { chmodSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { z } from "zod";
import { ConfigurationError } from "../../domain/errors.ts";
import type { Config } from "./config.ts";
import { describeReadError } from "./environment.ts";

const FILE = "credentials.json";
const SECRET_BYTES = 24;
/** Of who is neither the owner of the file nor root. */
const OTHERS = 0o077;

const storedSchema = z.strictObject({
  /** By source. */
  apiTokens: z.record(z.string(), z.string()).default({}),
  opsPassword: z.string().optional(),
  opsViewerPassword: z.string().optional(),
  metricsToken: z.string().optional(),
});
type Stored = z.output<typeof storedSchema>;

/** What was made because nobody had configured it; absent what was not made now. */
export type MadeCredentials = Partial<Stored> & Required<Pick<Stored, "apiTokens">>;

interface Provided {
  readonly config: Config;
  /** Undefined: nothing was missing, or it was all made at an earlier start. */
  readonly made: MadeCredentials | undefined;
  readonly file: string;
}

/**
 * `config` with the tokens and passwords that nobody configured: made at the first start and kept in DATA_DIR, in a file
 * that only this account can read. So nothing is open to everybody before somebody has thought of it. With LOCAL_TRUST
 * nothing is made. Throws ConfigurationError when the file cannot be written or others can read it.
 */
export function provideCredentials(config: Config): Provided {
  const file = path.resolve(config.dataDir, FILE);
  if (config.localTrust || !isLacking(config)) return { config, made: undefined, file };
  const stored = readStored(file);
  const made = makeMissing(config, stored);
  const hasMade = Object.keys(made).length > 1 || Object.keys(made.apiTokens).length > 0;
  const all = { ...stored, ...made, apiTokens: { ...stored.apiTokens, ...made.apiTokens } };
  if (hasMade) store(file, all);
  return { config: withStored(config, all), made: hasMade ? made : undefined, file };
}

/** Without METRICS_TOKEN alone nothing is made: then nobody reads the metrics, which is no reason to need a file. */
function isLacking(config: Config): boolean {
  return config.apiTokens.length === 0 || needsOpsPassword(config);
}

/** Where people sign on by another program, nobody has asked for a password that they share. */
function needsOpsPassword({ opsPassword, signOn }: Config): boolean {
  return opsPassword === null && signOn === null;
}

function makeMissing(config: Config, stored: Stored): MadeCredentials {
  const untold = config.sources.filter(({ sourceId }) => !Object.hasOwn(stored.apiTokens, sourceId));
  const tokens = config.apiTokens.length > 0 ? [] : untold.map(({ sourceId }) => [sourceId, makeSecret()]);
  const needsOperator = needsOpsPassword(config);
  const needsViewer = needsOperator && config.opsViewerPassword === null;
  return {
    apiTokens: Object.fromEntries(tokens) as Record<string, string>,
    ...(needsOperator && stored.opsPassword === undefined && { opsPassword: makeSecret() }),
    ...(needsViewer && stored.opsViewerPassword === undefined && { opsViewerPassword: makeSecret() }),
    ...(config.metricsToken === null && stored.metricsToken === undefined && { metricsToken: makeSecret() }),
  };
}

/** What is configured wins; a password for viewers only is none for operators, who get one then. */
function withStored(config: Config, stored: Stored): Config {
  const { apiTokens, opsPassword, opsViewerPassword, metricsToken } = config;
  const made = needsOpsPassword(config) ? stored : undefined;
  const ownTokens = config.sources.flatMap(({ sourceId }) => {
    const token = stored.apiTokens[sourceId];
    return token === undefined ? [] : [{ token, sourceId, mayWrite: false }];
  });
  return Object.freeze({
    ...config,
    apiTokens: apiTokens.length > 0 ? apiTokens : ownTokens,
    opsPassword: opsPassword ?? made?.opsPassword ?? null,
    opsViewerPassword: opsViewerPassword ?? made?.opsViewerPassword ?? null,
    metricsToken: metricsToken ?? stored.metricsToken ?? null,
  });
}

function makeSecret(): string {
  return randomBytes(SECRET_BYTES).toString("base64url");
}

function readStored(file: string): Stored {
  try {
    if (process.platform !== "win32" && (statSync(file).mode & OTHERS) !== 0) {
      throw new ConfigurationError(`Other accounts can read ${file}, which holds passwords.`, {
        fix: `Run chmod 600 ${file}; remove the file instead if somebody may have read it, and new ones are made.`,
      });
    }
    return storedSchema.parse(JSON.parse(readFileSync(file, "utf8")));
  } catch (error) {
    if (error instanceof ConfigurationError) throw error;
    if (["ENOENT", "ENOTDIR"].includes((error as NodeJS.ErrnoException).code ?? "")) return { apiTokens: {} };
    const broken = error instanceof SyntaxError || error instanceof z.ZodError;
    const reason = broken ? "is not what was written there" : describeReadError(error);
    throw new ConfigurationError(`The file ${file} ${reason}.`, {
      fix: "Correct it, or remove it: new tokens and passwords are made then.",
    });
  }
}

/** Whole or not at all: the file takes its place when it is complete. */
function store(file: string, stored: Stored): void {
  const draft = `${file}.${process.pid}`;
  try {
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(draft, `${JSON.stringify(stored, null, 2)}\n`, { mode: 0o600 });
    // A file of an earlier start that broke off keeps its mode when it is written again.
    chmodSync(draft, 0o600);
    renameSync(draft, file);
  } catch (error) {
    throw new ConfigurationError(`The tokens and passwords that were made cannot be kept in ${file}.`, {
      cause: error,
      fix: "Set API_TOKENS and OPS_PASSWORD, or make DATA_DIR a folder that this account can write to.",
    });
  }
}
