import { existsSync, readFileSync, statSync } from "node:fs";
import path from "node:path";
import { parseEnv } from "node:util";
import { hideLogin } from "../../domain/hideLogin.ts";
import { describeVariable, VARIABLE_NAMES } from "./variables.ts";
import type { VariableName } from "./variables.ts";

/** The origin of a value. `file`: from NAME_FILE, or from the file of sources. */
type Origin = "environment" | "file" | ".env" | "default";

export interface FoundText {
  readonly text: string;
  readonly origin: Origin;
}

export interface Environment {
  /** Trimmed texts of the variables that are set; an empty text counts as not set. */
  readonly found: ReadonlyMap<VariableName, FoundText>;
  /** Sentences that name the variable but never its content. */
  readonly problems: readonly string[];
}

export const ENV_FILE = ".env";
/** A shell and a .env file remove quotes; docker's --env-file, for example, keeps them. */
const QUOTED = /^(["'])[^]*\1$/;
const SECRET_FILE_BYTES_MAX = 65_536;

/** The environment wins over `.env`, and NAME_FILE may name a secret's file. With `envFile` null, no `.env`. */
export function readEnvironment(env: NodeJS.Dict<string>, envFile: string | null): Environment {
  const problems: string[] = [];
  const dotenv = readEnvFile(envFile, problems);
  const found = new Map<VariableName, FoundText>();

  const look = (name: string): FoundText | undefined => {
    const own = env[name];
    const text = (own ?? dotenv[name] ?? "").trim();
    if (text === "") return undefined;
    if (QUOTED.test(text)) problems.push(`${name} is in quotes, which are part of its value. Remove them.`);
    return { text, origin: own === undefined ? ".env" : "environment" };
  };
  for (const name of VARIABLE_NAMES) {
    const direct = look(name);
    const file = describeVariable(name).secret ? look(`${name}_FILE`) : undefined;
    if (direct && file) {
      problems.push(`${name} and ${name}_FILE are both set. Keep one of them.`);
    } else if (file) {
      const secret = readSecretFile(file.text);
      if ("problem" in secret)
        problems.push(`${name}_FILE names ${path.resolve(hideLogin(file.text))}, which ${secret.problem}.`);
      else found.set(name, { text: secret.text, origin: "file" });
    } else if (direct) {
      found.set(name, direct);
    }
  }
  return { found, problems };
}

/** Only we have variables with these beginnings. */
const OURS = /^(?:DELIVERY|POLL|BACKFILL|OPS|OUTGOING|SANDBOX)_/;

/** Names variables that look like ours, and that nothing reads. */
export function remarkOnNames(env: NodeJS.Dict<string>, envFile: string | null): string[] {
  const names = new Set([...Object.keys(env), ...Object.keys(readEnvFile(envFile, []))]);
  for (const name of VARIABLE_NAMES) {
    names.delete(name);
    if (describeVariable(name).secret === true) names.delete(`${name}_FILE`);
  }
  return [...names]
    .filter((name) => OURS.test(name))
    .map((name) => `${name} is set, but nothing reads it. .env.example has the names of all variables.`);
}

/** The trimmed content of a file with a secret, or the reason why it has none, worded to follow "the file …". */
export function readSecretFile(file: string): { text: string } | { problem: string } {
  try {
    if (statSync(file).size > SECRET_FILE_BYTES_MAX) return { problem: "is too large for a secret" };
    const text = readFileSync(file, "utf8").trim();
    return text === "" ? { problem: "is empty" } : { text };
  } catch (error) {
    return { problem: describeReadError(error) };
  }
}

/** Permission bit of accounts that are neither the owner of the file nor in its group. */
const OTHERS_READ = 0o004;
const OTHERS_ENTER = 0o001;
/** Files with secrets, in addition to `.env` and those in NAME_FILE variables. */
const LISTS_WITH_SECRETS = ["SOURCES_FILE", "OUTGOING_WEBHOOKS_FILE"] as const;
/** Docker mounts secrets here, readable by everybody in the container, which is only us. */
const MOUNTED_SECRETS = "/run/secrets/";

/** The files with secrets that every account on this machine can read. */
export function listReadableSecrets(env: NodeJS.Dict<string>, envFile: string | null): string[] {
  const { found } = readEnvironment(env, envFile);
  const dotenv = readEnvFile(envFile, []);
  const named = VARIABLE_NAMES.flatMap((name) =>
    found.get(name)?.origin === "file" ? (env[`${name}_FILE`] ?? dotenv[`${name}_FILE`] ?? []) : [],
  );
  const lists = LISTS_WITH_SECRETS.flatMap((name) => found.get(name)?.text ?? []);
  const hasSecret = VARIABLE_NAMES.some(
    (name) => describeVariable(name).secret === true && found.get(name)?.origin === ".env",
  );
  const files = [...named, ...lists, ...(hasSecret && envFile !== null ? [envFile] : [])];
  return [...new Set(files.map((file) => path.resolve(file.trim())))].filter(isReadableByOthers);
}

function isReadableByOthers(file: string): boolean {
  if (process.platform === "win32" || file.startsWith(MOUNTED_SECRETS)) return false;
  // Kubernetes mounts secrets this way, readable by everybody in the container.
  if (existsSync(path.join(path.dirname(file), "..data"))) return false;
  if (((statSync(file, { throwIfNoEntry: false })?.mode ?? 0) & OTHERS_READ) === 0) return false;
  // Nobody reaches a file below a folder that they may not enter.
  for (let folder = path.dirname(file); ; folder = path.dirname(folder)) {
    if ((statSync(folder).mode & OTHERS_ENTER) === 0) return false;
    if (folder === path.dirname(folder)) return true;
  }
}

/** Why a file could not be read, worded to follow "the file …". */
export function describeReadError(error: unknown): string {
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
