import { createInterface } from "node:readline/promises";
import { ConfigurationError } from "../../domain/errors.ts";
import { printNotice } from "../output/terminal.ts";

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

/** Whether a change may be made: with `--yes`, or when a person agrees. Otherwise it says that nothing was done. */
export async function isAgreed(
  { yes }: { readonly yes?: boolean | undefined },
  question: string,
): Promise<boolean> {
  if (yes === true || (await confirm(question))) return true;
  printNotice("Nothing was done.");
  return false;
}
