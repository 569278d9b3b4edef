import { ConfigurationError } from "../domain/errors.ts";
import { loadScheme } from "./scheme.ts";
import { loadVerifier } from "./verifier.ts";

/**
 * What is wrong with a scheme and its secrets, one sentence each; empty when events can be verified with them.
 * Without secrets, only the scheme is checked. `url` is the public address of the endpoint, if it is configured. No
 * sentence contains a secret.
 */
export function checkScheme(schemeText: string, secrets: readonly string[], url?: string): string[] {
  try {
    const scheme = loadScheme(schemeText);
    if (secrets.length > 0) loadVerifier({ scheme, secrets, url });
    return [];
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    const lines = error.message.split("\n");
    return error.fix === undefined ? lines : [...lines.slice(0, -1), `${lines.at(-1)} ${error.fix}`];
  }
}
