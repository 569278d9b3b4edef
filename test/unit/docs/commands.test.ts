import path from "node:path";
import type { Command } from "commander";
import { expect, it } from "vitest";
import { makeProgram } from "../../../src/cli/program.ts";

const DOCUMENT = path.resolve(import.meta.dirname, "../../../docs/commands.md");
const HEAD = `# Commands

Generated from the definitions of the commands. \`order-mirror COMMAND --help\` shows the same, with defaults and notes.
`;

const capitalize = (text: string) => text.slice(0, 1).toUpperCase() + text.slice(1);
const cell = (text: string) => text.replaceAll("|", String.raw`\|`).replaceAll("<", "&lt;");

/** The section of a command; its subcommands follow with the same depth. */
function describeCommand(command: Command, parents: readonly string[]): string[] {
  const names = [...parents, command.name()];
  const values = command.registeredArguments.map((argument) => ({
    term: `${argument.required ? "" : "["}${argument.name()}${argument.required ? "" : "]"}`,
    meaning: argument.description,
  }));
  const options = command.options.map(({ flags, description }) => ({ term: flags, meaning: description }));
  const rows = [...values, ...options].map(
    ({ term, meaning }) => `| \`${term.replaceAll("|", String.raw`\|`)}\` | ${cell(meaning)} |`,
  );
  const table = rows.length === 0 ? [] : ["", "| argument or option | meaning |", "| --- | --- |", ...rows];
  const section = ["", `## ${names.join(" ")}`, "", `${capitalize(command.description())}.`, ...table];
  return [...section, ...command.commands.flatMap((each) => describeCommand(each, names))];
}

// Run with -u to update the file after a command has changed.
it("docs/commands.md lists every command with its arguments and options", async () => {
  const program = await makeProgram();
  const lines = program.commands.flatMap((command) => describeCommand(command, []));
  const text = [
    HEAD,
    "<!-- prettier-ignore-start -->",
    ...lines,
    "",
    "<!-- prettier-ignore-end -->",
    "",
  ].join("\n");
  await expect(text).toMatchFileSnapshot(DOCUMENT);
});
