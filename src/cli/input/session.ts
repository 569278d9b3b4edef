import { hostname, userInfo } from "node:os";
import { createInterface } from "node:readline/promises";
import { InvalidArgumentError } from "commander";
import type { Instant } from "../../domain/order/instant.ts";
import { resolveSince } from "../../config/duration.ts";
import { systemClock } from "../../process/clock.ts";
import { assertMigrated } from "../../database/migrations.ts";
import type { Shutdown } from "../../process/shutdown.ts";
import { withDatabase } from "../../mirror/openDatabase.ts";
import { withPool, type Pool } from "../../database/database.ts";
import type { Config } from "../../config/config.ts";
import { ENVIRONMENT, loadConfig } from "../../config/environment.ts";
import { configureHere } from "../demo/demoFolder.ts";
import { printNotice } from "../output/terminal.ts";
import { ConfigurationError } from "../../domain/errors.ts";
import { readSourceIds } from "../../sources/sources.sql.ts";
import { beginAction, endAction } from "../../database/auditLog.sql.ts";

const COMMAND_CONNECTIONS = 2;
const COMMAND_TIMEOUT_MS = 30_000;

/** Reads this process's configuration. Throws ConfigurationError with every problem found. */
export function readConfig(): Config {
  return loadConfig(ENVIRONMENT);
}

/** The parts that a command works on. */
export interface Mirror {
  readonly config: Config;
  readonly pool: Pool;
  readonly databaseUrl: string;
  /** Ends the command by a signal. */
  readonly shutdown: Shutdown;
}

/**
 * Runs a short command against the database. Joins the embedded server, or starts it for the duration of the command.
 */
export async function withMirror<Result>(use: (mirror: Mirror) => Promise<Result>): Promise<Result> {
  const config = await configureHere(readConfig());
  return withDatabase(config, async ({ url }, shutdown) => {
    await assertMigrated(url);
    const options = {
      url,
      purpose: "command",
      max: COMMAND_CONNECTIONS,
      statementTimeoutMs: COMMAND_TIMEOUT_MS,
    };
    return withPool(options, (pool) => use({ config, pool, databaseUrl: url, shutdown }));
  });
}

/** The source for a command: the named one, or the only one. Throws ConfigurationError otherwise. */
export async function chooseSource(pool: Pool, named: string | undefined): Promise<string> {
  const known = await readSourceIds(pool);
  const [only, ...others] = known;
  if (only === undefined) {
    throw new ConfigurationError("The mirror has no source yet.", {
      fix: "Configure one, and start a poller once.",
    });
  }
  if (named === undefined && others.length === 0) return only;
  if (named !== undefined && known.includes(named)) return named;
  throw new ConfigurationError(
    named === undefined
      ? "The command applies to one source, and there are several."
      : `There is no source ${named}.`,
    { fix: `Choose one with --source: ${known.join(", ")}.` },
  );
}

/** Refuses the name of an order that several orders have, where one is meant. */
export function refuseSeveral(
  name: string,
  orders: readonly { readonly sourceId: string; readonly reference: string }[],
): ConfigurationError {
  const names = orders.map(({ sourceId, reference }) => `${reference} of ${sourceId}`).join(", ");
  const fix = `Choose one by its reference and --source: ${names}.`;
  return new ConfigurationError(`${name} matches several orders.`, { fix });
}

const NAME_LENGTH_MAX = 255;

/**
 * Runs a command that changes or exports something and records it in the audit log: the start before it runs, and the
 * number of affected rows when it ends. If the log cannot be written, the command does not run.
 */
export async function audited<Result>(
  pool: Pool,
  action: {
    readonly action: string;
    /** Null: every source. */
    readonly sourceId: string | null;
    /** Names what the command affects, without personal data. */
    readonly target: string;
  },
  run: () => Promise<Result>,
  count: (result: Result) => number = () => 1,
): Promise<Result> {
  const actionId = await beginAction(pool, { role: "command", person: nameAccount(), ...action });
  const result = await run();
  await endAction(pool, { actionId, affected: count(result) });
  return result;
}

/** `ada@machine`, or `ada as root@machine` under sudo. */
export function nameAccount(env: NodeJS.Dict<string> = ENVIRONMENT): string {
  const account = readAccount();
  const caller = env["SUDO_USER"];
  const who = caller === undefined || caller === account ? account : `${caller} as ${account}`;
  return `${who}@${hostname()}`.slice(0, NAME_LENGTH_MAX);
}

function readAccount(): string {
  try {
    return userInfo().username;
  } catch {
    // An account without a passwd entry, as in containers.
    return `uid ${process.getuid?.() ?? "unknown"}`;
  }
}

/**
 * Does the work of a command that looks at the given signal, which Ctrl-C, SIGTERM and a stdout that is closed
 * (`| head`) or full abort: what the command uses is closed after the work has ended.
 */
export function untilInterrupted(
  { shutdown }: Mirror,
  work: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const end = () => void shutdown.run("stdout was closed");
  process.stdout.on("error", end);
  return shutdown.start(() => work(shutdown.signal)).finally(() => process.stdout.off("error", end));
}

/**
 * Asks whether a change may be made: yes with `--yes`, or when a person answers y or yes. Throws ConfigurationError
 * when stdin is not a terminal.
 */
export async function isAgreed(
  { yes }: { readonly yes?: boolean | undefined },
  question: string,
): Promise<boolean> {
  if (yes === true) return true;
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw new ConfigurationError("This is not a terminal, so nobody can confirm.", {
      fix: "Check with --dry-run first, if the command has it; then add --yes.",
    });
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const answer = await terminal.question(`${question} [y/N] `).finally(() => terminal.close());
  if (/^y(es)?$/i.test(answer.trim())) return true;
  printNotice("Nothing was done.");
  return false;
}

/** An instant, or a duration back from now, in an option. */
export function parseWhen(text: string): Instant {
  try {
    return resolveSince(text, systemClock.now());
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    throw new InvalidArgumentError(`${error.message} ${error.fix ?? ""}`);
  }
}

/** The name of an order. A variable of a script that is not set names none. */
export function parseReference(text: string): string {
  if (text.trim() === "") throw new InvalidArgumentError("It must be the name of an order.");
  return text;
}

/** Makes the parser of a whole number from 0 to `max` in an option. */
export function parseCount(max: number) {
  return (text: string): number => {
    if (/^\d{1,9}$/.test(text) && Number(text) <= max) return Number(text);
    throw new InvalidArgumentError(`It must be a whole number of at most ${max}.`);
  };
}
