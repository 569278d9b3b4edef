import { execFileSync } from "node:child_process";
import type { Command } from "commander";
import { describe, expect, it } from "vitest";
import { listCommands } from "../../../src/cli/commands/completion.ts";
import { makeCompletionScript, SHELLS } from "../../../src/cli/output/completionScripts.ts";
import { makeProgram } from "../../../src/cli/program.ts";
import { SCENARIOS } from "../../../src/sandbox/control/scenarios.ts";

const commands = listCommands(await makeProgram());
const script = (shell: (typeof SHELLS)[number]) => makeCompletionScript(shell, "order-mirror", commands);

function has(shell: string): boolean {
  try {
    execFileSync(shell, ["-c", "exit 0"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

it.each(SHELLS)("%s gets every command and every long option", (shell) => {
  const text = script(shell);
  for (const { path, options } of commands) {
    expect(text).toContain(path.at(-1));
    for (const { flag } of options) expect(text).toContain(flag.replace(/^--/, ""));
  }
  expect(text).toContain(SCENARIOS[0]?.name);
});

it.each(SHELLS.map((shell) => ({ shell, present: has(shell) })))(
  "$shell can read its script",
  ({ shell, present }) => {
    if (!present) process.stderr.write(`NOT RUN: ${shell} on its completion script; there is no ${shell}.\n`);
    const check = () =>
      execFileSync(shell, ["-n"], { input: script(shell), stdio: ["pipe", "ignore", "pipe"] });
    expect(present ? check : () => undefined).not.toThrow();
  },
);

describe.runIf(has("bash"))("in bash", () => {
  const complete = (...words: string[]) =>
    execFileSync("bash", [
      "-c",
      `${script("bash")}
       COMP_WORDS=(order-mirror ${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length}
       _order_mirror; printf '%s\\n' "\${COMPREPLY[@]}"`,
    ])
      .toString()
      .split("\n")
      .filter(Boolean);

  it("completes commands, options and scenarios", () => {
    expect(complete("doc")).toEqual(["doctor"]);
    expect(complete("doctor", "--")).toEqual(["--url", "--json"]);
    expect(complete("trigger", "lost-")).toEqual(["lost-webhook", "lost-cancellation"]);
    expect(complete("nosuch", "")).toEqual([]);
  });

  it("completes subcommands, their options, and the values of options and arguments", () => {
    expect(complete("outgoing", "re")).toEqual(["retry", "replay"]);
    expect(complete("outgoing", "retry", "--y")).toEqual(["--yes"]);
    expect(complete("outgoing", "list", "--y")).toEqual([]);
    expect(complete("export", "--format", "")).toEqual(["csv", "ndjson"]);
    expect(complete("completion", "z")).toEqual(["zsh"]);
  });

  it("completes every subcommand and every choice that commander knows", async () => {
    const walk = (
      command: Command,
      parents: readonly string[],
    ): { typed: string[]; known: readonly string[] }[] => {
      const path = [...parents, command.name()];
      const words = [
        ...command.commands.map((each) => each.name()),
        ...command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []),
      ];
      return [
        { typed: [...path, ""], known: words },
        ...command.options.map(({ long, argChoices }) => ({
          typed: [...path, String(long), ""],
          known: argChoices ?? [],
        })),
        ...command.commands.flatMap((each) => walk(each, path)),
      ];
    };
    const cases = (await makeProgram()).commands.flatMap((command) => walk(command, []));
    const listed = cases.filter(({ known }) => known.length > 0);
    expect(listed.length).toBeGreaterThanOrEqual(5);
    for (const { typed, known } of listed)
      expect(complete(...typed)).toEqual(expect.arrayContaining([...known]));
  });
});

it("every command with output for programs can print JSON", async () => {
  const leaves = (command: Command): Command[] =>
    command.commands.length === 0 ? [command] : command.commands.flatMap(leaves);
  const without = leaves(await makeProgram()).filter(
    ({ options }) => !options.some(({ long }) => long === "--json"),
  );
  const running = ["demo", "poller", "psql", "up", "web", "worker"];
  // A script, JSON, or one word.
  const formatted = ["completion", "openapi", "openapi"];
  expect(without.map((command) => command.name()).sort()).toEqual([...running, ...formatted].sort());
});
