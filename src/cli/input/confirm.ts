import { createInterface } from "node:readline/promises";
import { ConfigurationError } from "../../domain/errors.ts";

/**
 * Asks a person to confirm a change; returns true for y or yes. Throws ConfigurationError when stdin is not a terminal;
 * `--yes` answers in advance.
 */
export async function confirm(question: string): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw new ConfigurationError("This is not a terminal, so nobody can confirm.", {
      fix: "Check with --dry-run first, if the command has it; then add --yes.",
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
