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
  return { bash: makeBash, zsh: makeZsh, fish: makeFish }[shell](program, commands);
}

const isTop = ({ path }: CompletedCommand) => path.length === 1;

/** Longer paths first: a shell takes the first pattern that matches. */
function deepestFirst(commands: readonly CompletedCommand[]): CompletedCommand[] {
  return [...commands].sort((one, other) => other.path.length - one.path.length);
}

/** A completion, with its description for shells that show one. */
interface Entry {
  readonly word: string;
  readonly about?: string;
}

/** The cases of a shell's `case "$line"`; `assign` writes how a case keeps its completions. */
function writeCases(
  commands: readonly CompletedCommand[],
  assign: (entries: readonly Entry[]) => string,
): string {
  const deepest = deepestFirst(commands);
  const tops = commands.filter(isTop).map(({ path: [word = ""], description: about }) => ({ word, about }));
  const values = deepest.flatMap(({ path, options }) =>
    options
      .filter(({ choices }) => choices.length > 0)
      .map(({ flag, choices }): [string, Entry[]] => [
        `"${path.join(" ")} "*" ${flag}"|"${path.join(" ")} ${flag}"`,
        choices.map((word) => ({ word })),
      ]),
  );
  const names = deepest.map(({ path, options, words }): [string, Entry[]] => [
    `"${path.join(" ")}"|"${path.join(" ")} "*`,
    [
      ...words.map((word) => ({ word, about: describeWord(commands, path, word) })),
      ...options.map(({ flag, description }) => ({ word: flag, about: description })),
    ],
  ]);
  const cases: [string, Entry[]][] = [['""', tops], ...values, ...names];
  return cases.map(([pattern, entries]) => `    ${pattern}) ${assign(entries)} ;;`).join("\n");
}

function makeBash(program: string, commands: readonly CompletedCommand[]): string {
  const name = functionName(program);
  return `# ${program} completion for bash. Load it with: source <(${program} completion bash)
${name}() {
  local words line="\${COMP_WORDS[*]:1:COMP_CWORD-1}"
  case "$line" in
${writeCases(commands, (entries) => `words="${entries.map(({ word }) => word).join(" ")}"`)}
    *) words="" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F ${name} ${program}
`;
}

function makeZsh(program: string, commands: readonly CompletedCommand[]): string {
  const name = functionName(program);
  const write = ({ word, about }: Entry) =>
    about === undefined ? word : quote(`${word.replaceAll(":", "\\:")}:${about}`);
  return `#compdef ${program}
# ${program} completion for zsh. Load it with: source <(${program} completion zsh)
${name}() {
  local -a entries
  local line="\${(j: :)words[2,CURRENT-1]}"
  case "$line" in
${writeCases(commands, (entries) => `entries=(${entries.map(write).join(" ")})`)}
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
