import { ENV_FILE, readEnvironment } from "./environment.ts";
import type { VariableName } from "./variables.ts";

/** The environment of this process. Only commands and the embedded server read it, never a mirror in another program. */
export const ENVIRONMENT: NodeJS.Dict<string> = process.env;

/** The text of one variable, even if others are invalid; undefined if it is not set. */
export function findText(name: VariableName, env: NodeJS.Dict<string> = ENVIRONMENT): string | undefined {
  return readEnvironment(env, ENV_FILE).get(name)?.text;
}
