import { readFileSync } from "node:fs";
import path from "node:path";
import { parseEnv } from "node:util";
import { hideLogin } from "../domain/hideLogin.ts";
import { describeVariable, VARIABLE_NAMES, type VariableName } from "./variables.ts";

export interface FoundText {
  readonly text: string;
  /** `file`: from NAME_FILE. */
  readonly origin: "environment" | "file" | ".env";
}

export const ENV_FILE = ".env";
/** A shell and a .env file remove quotes; docker's --env-file, for example, keeps them. */
const QUOTED = /^(["'])[^]*\1$/;

/**
 * Trimmed texts of the variables that are set; an empty text counts as not set. The environment wins over `.env`, and
 * NAME_FILE may name a secret's file. With `envFile` null, no `.env`. Problems name the variable but never its content.
 */
export function readEnvironment(
  env: NodeJS.Dict<string>,
  envFile: string | null,
  problems: string[] = [],
): ReadonlyMap<VariableName, FoundText> {
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
    const file = describeVariable(name).secret ? look(`${name}_FILE`)?.text : undefined;
    if (direct && file !== undefined) {
      problems.push(`${name} and ${name}_FILE are both set. Keep one of them.`);
    } else if (file !== undefined) {
      const text = readSecretFile(file, `${name}_FILE`, problems);
      if (text !== undefined) found.set(name, { text, origin: "file" });
    } else if (direct) {
      found.set(name, direct);
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
