import { Command } from "commander";
import { VERSION } from "../process/version.ts";

type CommandFile = () => Promise<{ readonly register: (program: Command) => unknown }>;

const roles: CommandFile = () => import("./commands/processes.ts");
const setup: CommandFile = () => import("./commands/setup.ts");
const orders: CommandFile = () => import("./commands/orders.ts");
const periods: CommandFile = () => import("./commands/periods.ts");
const sandbox: CommandFile = () => import("./commands/sandbox.ts");

/** The file of each command, in the order of the help. */
const COMMAND_FILES: Readonly<Record<string, CommandFile>> = {
  demo: () => import("./demo/demo.ts"),
  up: roles,
  web: roles,
  worker: roles,
  poller: roles,
  migrate: setup,
  status: () => import("./commands/status.ts"),
  orders,
  order: orders,
  tail: () => import("./commands/tail.ts"),
  psql: setup,
  refetch: orders,
  backfill: periods,
  verify: periods,
  source: () => import("./commands/source.ts"),
  export: () => import("./commands/export.ts"),
  replay: () => import("./commands/replay.ts"),
  outgoing: () => import("./commands/outgoing.ts"),
  erase: orders,
  doctor: () => import("./doctor/doctor.ts"),
  config: setup,
  "identify-signature": () => import("./commands/identifySignature.ts"),
  sandbox,
  trigger: sandbox,
  openapi: setup,
};

const AFTER_HELP = `
Exit codes: 0 ok · 1 failed · 2 wrong usage or configuration · 3 problems found
            75 a required service is unavailable or a disk is full, try again later
            130, 143 ended by a signal; 141 stdout was closed

Configuration comes from the environment and from .env; \`order-mirror config\` shows the values in force.`;

/**
 * The command line with all commands, or only with those of the file that provides `name`. Loading everything takes a
 * second, and a role, which runs for months, would hold a third more memory. Throws errors, including commander's; the
 * caller turns them into an exit code.
 */
export async function makeProgram(name = ""): Promise<Command> {
  const program = new Command("order-mirror")
    .description(
      "Keeps a business's courier orders in its own Postgres: immediately by webhook, provably complete by polling.",
    )
    .version(VERSION)
    .addHelpText("after", AFTER_HELP)
    .showSuggestionAfterError()
    .exitOverride();
  if (name === "--version" || name === "-V") return program;
  const file = Object.hasOwn(COMMAND_FILES, name) ? COMMAND_FILES[name] : undefined;
  const files = file === undefined ? Object.values(COMMAND_FILES) : [file];
  for (const load of new Set(files)) (await load()).register(program);
  // Subcommands inherit exitOverride only if the program created them after it was set.
  for (const command of program.commands) command.exitOverride();
  return program;
}
