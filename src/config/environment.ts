import { readFileSync } from "node:fs";
import path from "node:path";
import { parseEnv } from "node:util";
import { hideLogin } from "../domain/hideLogin.ts";
import { describeUnknownName } from "../domain/unknownName.ts";
import { makeConfig, type Config } from "./config.ts";
import { describeDefault, describeSetting, SETTING_NAMES, type SettingName } from "./settings.ts";

/*
 * The border of the commands: settings come from variables of the environment and of `.env`, secrets also from files,
 * and lists from JSON files. A mirror in another program never loads this file.
 */

/** The environment of this process. */
export const ENVIRONMENT: NodeJS.Dict<string> = process.env;

interface FoundText {
  readonly text: string;
  /** `file`: from NAME_FILE. */
  readonly origin: "environment" | "file" | ".env";
}

const ENV_FILE = ".env";

/**
 * Reads the configuration. `envFile` is null for none, and may be missing. Throws ConfigurationError, a line per
 * problem, without secrets.
 */
export function loadConfig(env: NodeJS.Dict<string>, envFile: string | null = ENV_FILE): Config {
  const problems: string[] = [];
  const found = readEnvironment(env, envFile, problems);
  const settings = [...found].map(
    ([name, { text }]) => [name, { text, value: describeSetting(name).kind.fromText(text) }] as const,
  );
  const readList = (setting: "sourcesFile" | "outgoingWebhooksFile") => {
    const name = nameOf(setting);
    return { name, elements: readListFile(name, found.get(setting)?.text, problems) };
  };
  const [sources, endpoints] = [readList("sourcesFile"), readList("outgoingWebhooksFile")];
  return makeConfig({ settings: new Map(settings), sources, endpoints, nameOf }, problems);
}

const nameOf = (setting: SettingName) => describeSetting(setting).variable;

interface ConfigRow {
  /** The variable. */
  readonly name: string;
  /** For a secret, only its length. */
  readonly value: string;
  readonly source: FoundText["origin"] | "default";
}

/** Lists each setting in force, with its origin. */
export function describeConfig(env: NodeJS.Dict<string>, envFile: string | null = ENV_FILE): ConfigRow[] {
  const found = readEnvironment(env, envFile);
  return SETTING_NAMES.map((setting) => {
    const { variable: name, kind } = describeSetting(setting);
    const set = found.get(setting);
    if (!set) return { name, value: describeDefault(setting) || "not set", source: "default" };
    const value = kind.secret ? `set, ${set.text.length} characters` : hideLogin(set.text);
    return { name, value, source: set.origin };
  });
}

/** The text of one setting, even if others are invalid; undefined if it is not set. */
export function findText(setting: SettingName, env: NodeJS.Dict<string> = ENVIRONMENT): string | undefined {
  return readEnvironment(env, ENV_FILE).get(setting)?.text;
}

/**
 * Beginnings that only our variables have. Many programs read DATABASE_, REDIS_, HOST, PORT and LOG_, so what is
 * unknown there may be somebody else's.
 */
const OWN_PREFIX =
  /^(?:ALERT_WEBHOOK|API_TOKEN|BACKFILL|CAPTURE_REFUSED|DELIVERY|OPS|OUTGOING|POLL|RATE_SHARE|SANDBOX|WEBHOOK|WRITE_THROUGH)_?/;
/** Variables that Kubernetes sets for each service that it has, such as SANDBOX_PORT_4010_TCP. */
const SERVICE_LINK = /_(?:SERVICE|PORT)_/;

/**
 * Names, in a sentence each, the variables that nothing reads although they look like ours: all in `.env`, which is
 * ours alone, and in the environment those that begin like one of ours.
 */
export function listUnknownVariables(
  env: NodeJS.Dict<string>,
  envFile: string | null = ENV_FILE,
): readonly string[] {
  const known = SETTING_NAMES.flatMap((setting) => {
    const { variable, kind } = describeSetting(setting);
    return kind.secret ? [variable, `${variable}_FILE`] : [variable];
  });
  const foreign = (name: string) => !OWN_PREFIX.test(name) || SERVICE_LINK.test(name);
  const inEnvironment = Object.keys(env).filter((name) => !foreign(name));
  const tell = (place: string) => (name: string) =>
    `${place}: ${describeUnknownName("variable", name, known)}`.replace(/(?<!\?)$/, ".");
  const isUnknown = (name: string) => !known.includes(name);
  return [
    ...Object.keys(readEnvFile(envFile, [])).filter(isUnknown).map(tell(ENV_FILE)),
    ...inEnvironment.filter(isUnknown).map(tell("environment")),
  ];
}

/** A shell and a .env file remove quotes; docker's --env-file, for example, keeps them. */
const QUOTED = /^(["'])[^]*\1$/;

/**
 * Trimmed texts of the variables that are set; an empty text counts as not set. The environment wins over `.env`, and
 * NAME_FILE may name a secret's file. With `envFile` null, no `.env`. Problems name the variable but never its content.
 */
function readEnvironment(
  env: NodeJS.Dict<string>,
  envFile: string | null,
  problems: string[] = [],
): ReadonlyMap<SettingName, FoundText> {
  const dotenv = readEnvFile(envFile, problems);
  const found = new Map<SettingName, FoundText>();

  const look = (name: string): FoundText | undefined => {
    const own = env[name];
    const text = (own ?? dotenv[name] ?? "").trim();
    if (text === "") return undefined;
    if (QUOTED.test(text)) problems.push(`${name} is in quotes, which are part of its value. Remove them.`);
    return { text, origin: own === undefined ? ".env" : "environment" };
  };
  for (const setting of SETTING_NAMES) {
    const { variable: name, kind } = describeSetting(setting);
    const direct = look(name);
    const file = kind.secret ? look(`${name}_FILE`)?.text : undefined;
    if (direct && file !== undefined) {
      problems.push(`${name} and ${name}_FILE are both set. Keep one of them.`);
    } else if (file !== undefined) {
      const text = readSecretFile(file, `${name}_FILE`, problems);
      if (text !== undefined) found.set(setting, { text, origin: "file" });
    } else if (direct) {
      found.set(setting, direct);
    }
  }
  return found;
}

function readSecretFile(file: string, name: string, problems: string[]): string | undefined {
  let reason = "is empty";
  try {
    const text = readFileSync(file, "utf8").trim();
    if (text !== "") return text;
  } catch (error) {
    reason = describeReadError(error);
  }
  problems.push(`${name} names ${path.resolve(hideLogin(file))}, which ${reason}.`);
  return undefined;
}

/** The elements in a JSON file; none without a file. Problems begin with `name`. */
function readListFile(name: string, file: string | undefined, problems: string[]): unknown {
  if (file === undefined) return [];
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    // The message of JSON.parse quotes the file, which holds keys.
    const reason = error instanceof SyntaxError ? "is not valid JSON" : describeReadError(error);
    problems.push(`${name} names ${path.resolve(hideLogin(file))}, which ${reason}.`);
    return [];
  }
}

/** Says why a file could not be read, worded to follow "the file …". */
function describeReadError(error: unknown): string {
  const { code } = error as NodeJS.ErrnoException;
  if (code === "ENOENT") return "does not exist";
  if (code === "EACCES") return "is not readable by this account";
  if (code === "EISDIR") return "is a folder";
  return `cannot be read (${code ?? "unknown reason"})`;
}

function readEnvFile(envFile: string | null, problems: string[]): NodeJS.Dict<string> {
  if (envFile === null) return {};
  try {
    return parseEnv(readFileSync(envFile, "utf8"));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") {
      problems.push(`The file ${path.resolve(envFile)} ${describeReadError(error)}. Correct or remove it.`);
    }
    return {};
  }
}
