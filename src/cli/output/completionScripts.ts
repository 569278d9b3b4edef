/** The completions after one command or subcommand. */
export interface CompletedCommand {
  /** Its names below the program, such as `outgoing`, `retry`. */
  readonly path: readonly string[];
  readonly description: string;
  readonly options: readonly {
    readonly flag: string;
    readonly description: string;
    /** Its possible values, if they are known. */
    readonly choices: readonly string[];
  }[];
  /** Possible values of its argument, and its subcommands. */
  readonly words: readonly string[];
}

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

/** The script that adds completion of `program` to a shell; the shell evaluates it. */
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

const isTop = ({ path }: CompletedCommand) => path.length === 1;

/** Longer paths first: a shell takes the first pattern that matches. */
function deepestFirst(commands: readonly CompletedCommand[]): CompletedCommand[] {
  return [...commands].sort((one, other) => other.path.length - one.path.length);
}

/** Patterns for "COMMAND OPTION", each with the values of that option. */
function listChoices(commands: readonly CompletedCommand[]): { pattern: string; choices: string }[] {
  return deepestFirst(commands).flatMap(({ path, options }) =>
    options
      .filter(({ choices }) => choices.length > 0)
      .map(({ flag, choices }) => ({
        pattern: `"${path.join(" ")} "*" ${flag}"|"${path.join(" ")} ${flag}"`,
        choices: choices.join(" "),
      })),
  );
}

function makeBash(program: string, commands: readonly CompletedCommand[]): string {
  const name = functionName(program);
  const values = listChoices(commands).map(({ pattern, choices }) => `    ${pattern}) words="${choices}" ;;`);
  const cases = deepestFirst(commands).map(
    ({ path, options, words }) =>
      `    "${path.join(" ")}"|"${path.join(" ")} "*) words="${[...words, ...options.map(({ flag }) => flag)].join(" ")}" ;;`,
  );
  return `# ${program} completion for bash. Load it with: source <(${program} completion bash)
${name}() {
  local words line="\${COMP_WORDS[*]:1:COMP_CWORD-1}"
  case "$line" in
    "") words="${commands
      .filter(isTop)
      .map(({ path }) => path[0])
      .join(" ")}" ;;
${[...values, ...cases].join("\n")}
    *) words="" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F ${name} ${program}
`;
}

function makeZsh(program: string, commands: readonly CompletedCommand[]): string {
  const name = functionName(program);
  const describe = (word: string, description: string) =>
    quote(`${word.replaceAll(":", "\\:")}:${description}`);
  const values = listChoices(commands).map(
    ({ pattern, choices }) => `    ${pattern}) entries=(${choices}) ;;`,
  );
  const cases = deepestFirst(commands).map(({ path, options, words }) => {
    const line = path.join(" ");
    const entries = [
      ...words.map((word) => describe(word, describeWord(commands, path, word))),
      ...options.map(({ flag, description }) => describe(flag, description)),
    ];
    return `    "${line}"|"${line} "*) entries=(${entries.join(" ")}) ;;`;
  });
  const tops = commands.filter(isTop).map(({ path: [top = ""], description }) => describe(top, description));
  return `#compdef ${program}
# ${program} completion for zsh. Load it with: source <(${program} completion zsh)
${name}() {
  local -a entries
  local line="\${(j: :)words[2,CURRENT-1]}"
  case "$line" in
    "") entries=(${tops.join(" ")}) ;;
${[...values, ...cases].join("\n")}
  esac
  _describe -o '${program}' entries || _files
}
compdef ${name} ${program}
`;
}

/** The description of a subcommand; for any other word, the description of its command. */
function describeWord(
  commands: readonly CompletedCommand[],
  parents: readonly string[],
  word: string,
): string {
  const line = [...parents, word].join(" ");
  return commands.find(({ path }) => path.join(" ") === line)?.description ?? parents.join(" ");
}

function makeFish(program: string, commands: readonly CompletedCommand[]): string {
  const lines = commands.flatMap(({ path, description, options, words }) => {
    const [top = "", sub] = path;
    const seen = `-n '${path.map((each) => `__fish_seen_subcommand_from ${each}`).join("; and ")}'`;
    return [
      sub === undefined
        ? `complete -c ${program} -n __fish_use_subcommand -f -a ${top} -d ${quote(description)}`
        : "",
      ...words.map(
        (word) =>
          `complete -c ${program} ${seen} -f -a ${word} -d ${quote(describeWord(commands, path, word))}`,
      ),
      ...options.map(({ flag, description: about, choices }) => {
        const values = choices.length > 0 ? ` -x -a '${choices.join(" ")}'` : "";
        return `complete -c ${program} ${seen} -l ${flag.replace(/^--/, "")}${values} -d ${quote(about)}`;
      }),
    ].filter((line) => line !== "");
  });
  const how = `# ${program} completion for fish. Load it with: ${program} completion fish | source`;
  return `${[how, ...lines].join("\n")}\n`;
}

function functionName(program: string): string {
  return `_${program.replaceAll("-", "_")}`;
}

/** Single-quoted: these shells then take the text literally. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "’")}'`;
}
