import type { Writable } from "node:stream";
import type { Command } from "commander";
import type { StoredCertificate } from "../../../certificates/certificates.sql.ts";
import { issueCertificate } from "../../../certificates/issue.ts";
import type { FoundState } from "../../../certificates/periodStates.sql.ts";
import { provideSigningKeys } from "../../../certificates/signingKey.ts";
import { STATES_HEADER, writeStates } from "../../../certificates/states.ts";
import type { Pool } from "../../../database/database.ts";
import { ConfigurationError } from "../../../domain/errors.ts";
import { addSeconds, formatInstant, tryParseInstant } from "../../../domain/order/instant.ts";
import type { Window } from "../../../domain/window/window.ts";
import type { Config } from "../../../runtime/config/config.ts";
import { resolveSince } from "../../../runtime/config/duration.ts";
import { systemClock } from "../../../runtime/lifecycle/clock.ts";
import { audited } from "../../input/audit.ts";
import { withMirror } from "../../input/session.ts";
import { chooseSource } from "../../input/sourceChoice.ts";
import { printLine, printNotice } from "../../output/terminal.ts";
import { writeFile } from "../../output/writeFile.ts";

interface Options {
  readonly source?: string;
  readonly day?: string;
  readonly since?: string;
  readonly until?: string;
  readonly orders?: string;
  readonly states?: string;
  readonly newKey?: boolean;
}

const DAY_SECONDS = 86_400;

export function register(program: Command): void {
  program
    .command("certify")
    .description("sign that the mirror had every order of a period, and print the certificate")
    .option("--source <id>", "the source; required if there are several")
    .option("--day <date>", "a day of UTC, such as 2026-11-21")
    .option("--since <when>", "start of any other period, inclusive: an instant, or a duration back from now")
    .option("--until <when>", "end of that period, exclusive")
    .option("--orders <file>", "write the certified orders as NDJSON")
    .option("--states <file>", "write reference, version and hash of each certified order as CSV")
    .option("--new-key", "continue with a new key although the former one is lost")
    .action((options: Options) => withMirror((deps) => certify(deps, options)));
}

async function certify(deps: { pool: Pool; config: Config }, options: Options): Promise<void> {
  const { pool, config } = deps;
  const period = { sourceId: await chooseSource(pool, options.source), ...readPeriod(options) };
  const keys = provideSigningKeys(config);
  const { orders, states, newKey } = options;
  const target = `${formatInstant(period.since)} to ${formatInstant(period.until)}${orders === undefined ? "" : ", with orders"}`;
  const issue = (onStates: (found: readonly FoundState[]) => Promise<void>) =>
    issueCertificate({ pool, keys, acceptsNewKey: newKey, onStates }, period);
  const action = { action: "certify", sourceId: period.sourceId, target };
  const issued = await audited(
    pool,
    action,
    () => withOutputs({ orders, states }, issue),
    (certificate) => certificate.orders,
  );
  printLine(issued.envelope);
  printNotice(`${issued.orders} orders certified, as statement ${issued.serial} of ${issued.sourceId}.`);
}

/** Writes what is certified to the files that are asked for, which appear only when complete. */
function withOutputs(
  { orders, states }: Record<"orders" | "states", string | undefined>,
  issue: (onStates: (found: readonly FoundState[]) => Promise<void>) => Promise<StoredCertificate>,
): Promise<StoredCertificate> {
  const toFile = <Result>(file: string | undefined, work: (out: Writable | undefined) => Promise<Result>) =>
    file === undefined ? work(undefined) : writeFile(file, work);
  return toFile(orders, (orderFile) =>
    toFile(states, async (stateFile) => {
      await put(stateFile, STATES_HEADER);
      return issue(async (found) => {
        await put(orderFile, found.map(({ raw }) => `${(raw ?? "").replaceAll(/[\r\n]+/g, " ")}\n`).join(""));
        await put(stateFile, writeStates(found.flatMap(({ state }) => (state === null ? [] : [state]))));
      });
    }),
  );
}

function put(out: Writable | undefined, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    if (out === undefined) resolve();
    else out.write(text, (error) => (error ? reject(error) : resolve()));
  });
}

function readPeriod({ day, since, until }: Options): Window {
  if (day !== undefined) {
    const start = tryParseInstant(`${day}T00:00:00Z`);
    if (start === undefined || since !== undefined || until !== undefined) {
      throw new ConfigurationError("--day takes a date, and no --since or --until.", {
        fix: "--day 2026-11-21",
      });
    }
    return { since: start, until: addSeconds(start, DAY_SECONDS) };
  }
  const now = systemClock.now();
  if (since === undefined || until === undefined || resolveSince(since, now) >= resolveSince(until, now)) {
    throw new ConfigurationError("The period is not known.", {
      fix: "Give --day, or --since and a later --until.",
    });
  }
  return { since: resolveSince(since, now), until: resolveSince(until, now) };
}
