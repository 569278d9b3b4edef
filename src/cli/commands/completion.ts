import { Argument } from "commander";
import type { Command } from "commander";
import { SCENARIOS } from "../../sandbox/control/scenarios.ts";
import { makeCompletionScript, SHELLS } from "../output/completionScripts.ts";
import type { CompletedCommand, Shell } from "../output/completionScripts.ts";

/** Argument values that commander does not know as choices, because a newer sandbox may have others. */
const WORDS: Readonly<Record<string, readonly string[]>> = { trigger: SCENARIOS.map(({ name }) => name) };

export function register(program: Command): void {
  program
    .command("completion")
    .addArgument(new Argument("<shell>", "your shell").choices(SHELLS))
    .description("print a script for your shell that completes commands, options and their values")
    .addHelpText("after", `\nbash: source <(${program.name()} completion bash)`)
    .action((shell: Shell) => {
      process.stdout.write(makeCompletionScript(shell, program.name(), listCommands(program)));
    });
}

/** Every command and subcommand with its options, as defined in commander. @internal */
export function listCommands(program: Command, parents: readonly string[] = []): CompletedCommand[] {
  return program.commands.flatMap((command) => {
    const path = [...parents, command.name()];
    const choices = command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []);
    const own: CompletedCommand = {
      path,
      description: command.description(),
      options: command.options.flatMap(({ long, description, argChoices }) =>
        long === undefined || long === null ? [] : [{ flag: long, description, choices: argChoices ?? [] }],
      ),
      words: [...choices, ...(WORDS[command.name()] ?? []), ...command.commands.map((each) => each.name())],
    };
    return [own, ...listCommands(command, path)];
  });
}
