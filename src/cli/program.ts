import type { Command } from "commander";
import { makeBareProgram } from "./bareProgram.ts";

interface CommandSource {
  /** The command names that it provides. */
  readonly names: readonly string[];
  readonly load: () => Promise<(program: Command) => unknown>;
}

/** In the order of the help. */
const SOURCES: readonly CommandSource[] = [
  { names: ["demo"], load: async () => (await import("./demo/demo.ts")).addDemoCommand },
  {
    names: ["up", "web", "worker", "poller"],
    load: async () => (await import("./commands/roles.ts")).addRoleCommands,
  },
  { names: ["migrate"], load: async () => (await import("./commands/migrate.ts")).addMigrateCommand },
  {
    names: ["upgrade-postgres"],
    load: async () => (await import("./commands/upgradePostgres.ts")).addUpgradePostgresCommand,
  },
  { names: ["rehearse"], load: async () => (await import("./rehearse/rehearse.ts")).addRehearseCommand },
  { names: ["status"], load: async () => (await import("./commands/status.ts")).addStatusCommand },
  { names: ["order"], load: async () => (await import("./commands/orders/order.ts")).addOrderCommand },
  { names: ["tail"], load: async () => (await import("./commands/orders/tail.ts")).addTailCommand },
  { names: ["listen"], load: async () => (await import("./commands/listen.ts")).addListenCommand },
  { names: ["psql"], load: async () => (await import("./commands/psql.ts")).addPsqlCommand },
  { names: ["refetch"], load: async () => (await import("./commands/orders/refetch.ts")).addRefetchCommand },
  {
    names: ["backfill"],
    load: async () => (await import("./commands/orders/backfill.ts")).addBackfillCommand,
  },
  { names: ["verify"], load: async () => (await import("./commands/orders/verify.ts")).addVerifyCommand },
  { names: ["source"], load: async () => (await import("./commands/source/source.ts")).addSourceCommand },
  { names: ["export"], load: async () => (await import("./commands/orders/export.ts")).addExportCommand },
  {
    names: ["certify"],
    load: async () => (await import("./commands/certificates/certify.ts")).addCertifyCommand,
  },
  {
    names: ["certificate"],
    load: async () => (await import("./commands/certificates/certificate.ts")).addCertificateCommand,
  },
  {
    names: ["report-card"],
    load: async () => (await import("./commands/source/reportCard.ts")).addReportCardCommand,
  },
  { names: ["replay"], load: async () => (await import("./commands/orders/replay.ts")).addReplayCommand },
  { names: ["outgoing"], load: async () => (await import("./commands/outgoing.ts")).addOutgoingCommand },
  { names: ["erase"], load: async () => (await import("./commands/orders/erase.ts")).addEraseCommand },
  { names: ["doctor"], load: async () => (await import("./commands/doctor.ts")).addDoctorCommand },
  { names: ["config"], load: async () => (await import("./commands/config.ts")).addConfigCommand },
  {
    names: ["identify-signature"],
    load: async () => (await import("./commands/identifySignature.ts")).addIdentifySignatureCommand,
  },
  { names: ["sandbox"], load: async () => (await import("./commands/sandbox.ts")).addSandboxCommand },
  { names: ["trigger"], load: async () => (await import("./commands/trigger.ts")).addTriggerCommand },
  { names: ["openapi"], load: async () => (await import("./commands/openapi.ts")).addOpenapiCommand },
  {
    names: ["completion"],
    load: async () => (await import("./commands/completion.ts")).addCompletionCommand,
  },
];

/**
 * The command line with all commands, or only with those of the file that provides `name`. Loading everything takes a
 * second, and a role, which runs for months, would hold a third more memory. Throws errors, including commander's; the
 * caller turns them into an exit code.
 */
export async function makeProgram(name?: string): Promise<Command> {
  const program = makeBareProgram();
  const source = SOURCES.find(({ names }) => name !== undefined && names.includes(name));
  if (name === "--version" || name === "-V") return program;
  // A completion script lists all commands.
  const sources = source === undefined || name === "completion" ? SOURCES : [source];
  for (const { load } of sources) (await load())(program);
  // Subcommands inherit exitOverride only if the program created them after it was set.
  for (const command of program.commands) command.exitOverride();
  return program;
}
