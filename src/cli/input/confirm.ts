import { createInterface } from "node:readline/promises";
import { ConfigurationError } from "../../domain/errors.ts";

/**
 * Asks a person before something is changed; true for y or yes. Where nobody can be asked it throws
 * ConfigurationError: the way to say yes beforehand is `--yes`.
 */
export async function confirm(question: string): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw new ConfigurationError("Nobody can be asked here, as this is no terminal.", {
      fix: "Look first, with --dry-run where there is one, then say --yes.",
    });
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await terminal.question(`${question} [y/N] `);
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    terminal.close();
  }
}
