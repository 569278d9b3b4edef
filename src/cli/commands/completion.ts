import { Argument } from "commander";
import type { Command } from "commander";
import { SCENARIOS } from "../../sandbox/control/scenarios.ts";
import { makeCompletionScript, SHELLS } from "../output/completionScripts.ts";
import type { CompletedCommand, Shell } from "../output/completionScripts.ts";

/** Words of arguments that are known before the program is asked. */
const WORDS: Readonly<Record<string, readonly string[]>> = {
  trigger: SCENARIOS.map(({ name }) => name),
  completion: SHELLS,
};

export function addCompletionCommand(program: Command): void {
  program
    .command("completion")
    .addArgument(new Argument("<shell>", "the shell to complete in").choices(SHELLS))
    .description("print a script that completes commands and options in a shell")
    .addHelpText("after", `\nbash: source <(${program.name()} completion bash)`)
    .action((shell: Shell) => {
      process.stdout.write(makeCompletionScript(shell, program.name(), listCommands(program)));
    });
}

/** Every command with its options, as commander knows them. */
export function listCommands(program: Command): CompletedCommand[] {
  return program.commands.map((command) => ({
    name: command.name(),
    description: command.description(),
    options: command.options.flatMap(({ long, description }) =>
      long === undefined || long === null ? [] : [{ flag: long, description }],
    ),
    words: WORDS[command.name()] ?? [],
  }));
}
