/** What can be completed after one command. */
export interface CompletedCommand {
  readonly name: string;
  readonly description: string;
  readonly options: readonly { readonly flag: string; readonly description: string }[];
  /** Words that its argument may be. */
  readonly words: readonly string[];
}

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

/** The script that teaches a shell the program `program`; to be evaluated by that shell. */
export function makeCompletionScript(
  shell: Shell,
  program: string,
  commands: readonly CompletedCommand[],
): string {
  switch (shell) {
    case "bash":
      return makeBash(program, commands);
    case "zsh":
      return makeZsh(program, commands);
    case "fish":
      return makeFish(program, commands);
    default: {
      const never: never = shell;
      return never;
    }
  }
}

function makeBash(program: string, commands: readonly CompletedCommand[]): string {
  const name = functionName(program);
  const cases = commands.map(
    ({ name: command, options, words }) =>
      `    ${command}) words="${[...words, ...options.map(({ flag }) => flag)].join(" ")}" ;;`,
  );
  return `# ${program} completion for bash. Load it with: source <(${program} completion bash)
${name}() {
  local words
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="${commands.map((each) => each.name).join(" ")}"
  else
    case "\${COMP_WORDS[1]}" in
  ${cases.join("\n  ")}
      *) words="" ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F ${name} ${program}
`;
}

function makeZsh(program: string, commands: readonly CompletedCommand[]): string {
  const name = functionName(program);
  const describe = (word: string, description: string) =>
    quote(`${word.replaceAll(":", "\\:")}:${description}`);
  const cases = commands.map(({ name: command, options, words }) => {
    const entries = [
      ...words.map((word) => describe(word, command)),
      ...options.map(({ flag, description }) => describe(flag, description)),
    ];
    return `    ${command}) entries=(${entries.join(" ")}) ;;`;
  });
  return `#compdef ${program}
# ${program} completion for zsh. Load it with: source <(${program} completion zsh)
${name}() {
  local -a entries
  if (( CURRENT == 2 )); then
    entries=(${commands.map((each) => describe(each.name, each.description)).join(" ")})
  else
    case "$words[2]" in
  ${cases.join("\n  ")}
    esac
  fi
  _describe -o '${program}' entries || _files
}
compdef ${name} ${program}
`;
}

function makeFish(program: string, commands: readonly CompletedCommand[]): string {
  const lines = commands.flatMap(({ name, description, options, words }) => {
    const seen = `-n '__fish_seen_subcommand_from ${name}'`;
    return [
      `complete -c ${program} -n __fish_use_subcommand -f -a ${name} -d ${quote(description)}`,
      ...words.map((word) => `complete -c ${program} ${seen} -f -a ${word}`),
      ...options.map(
        ({ flag, description: about }) =>
          `complete -c ${program} ${seen} -l ${flag.replace(/^--/, "")} -d ${quote(about)}`,
      ),
    ];
  });
  const how = `# ${program} completion for fish. Load it with: ${program} completion fish | source`;
  return `${[how, ...lines].join("\n")}\n`;
}

function functionName(program: string): string {
  return `_${program.replaceAll("-", "_")}`;
}

/** In single quotes, in which these shells take everything as it is. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "’")}'`;
}
