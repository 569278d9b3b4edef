import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { readChain } from "../../../certificates/certificates.sql.ts";
import { checkChain, isCoveredByWindows } from "../../../certificates/checkCertificate.ts";
import type { CheckedCertificate } from "../../../certificates/checkCertificate.ts";
import type { KeyPlace } from "../../../certificates/signingKey.ts";
import { provideSigningKeys, readPublicKey, rotateSigningKey } from "../../../certificates/signingKey.ts";
import { readCertificateOf, readStates } from "../../../certificates/readStates.ts";
import { compareStates, listDifferences } from "../../../certificates/states.ts";
import { ConfigurationError } from "../../../domain/errors.ts";
import { configureHere } from "../../demo/demoFolder.ts";
import { ProblemsFoundError } from "../../input/failure.ts";
import { readConfig, withMirror } from "../../input/session.ts";
import { chooseSource } from "../../input/sourceChoice.ts";
import { printJson, printLine, printNotice } from "../../output/terminal.ts";

interface CheckOptions {
  readonly key: string;
  readonly day?: string;
  readonly orders?: string;
  readonly states?: string;
  readonly json?: boolean;
}

export function register(program: Command): void {
  const certificate = program
    .command("certificate")
    .description("check certificates, print their chain, or manage the key that signs them");
  certificate
    .command("check")
    .argument("<file>", "one or several consecutive certificates, one per line, or a daily file")
    .description("verify signatures and chain, and compare orders with a certificate, without a database")
    .requiredOption("--key <key>", "public key of the installation, in base64 or in a file")
    .option("--orders <file>", "orders to compare, as export or certify writes them: CSV, NDJSON or Parquet")
    .option(
      "--states <file>",
      "the certified states, as certify --states writes them: names the orders that differ",
    )
    .option("--day <date>", "the certificate of this day; default: the last one in the file")
    .option("--json", "print JSON")
    .action(check);
  certificate
    .command("chain")
    .description("print all signed statements of a source, the first one first")
    .option("--source <id>", "the source; required if there are several")
    .action(({ source }: { source?: string }) =>
      withMirror(async ({ pool }) => {
        for await (const line of readChain(pool, await chooseSource(pool, source))) printLine(line);
      }),
    );
  certificate
    .command("key")
    .description("print the public key that checkers need, in base64; the first call makes the key")
    .action(async () => printLine(provideSigningKeys(await findKeyPlace())[0].publicKey));
  certificate
    .command("rotate-key")
    .description("make a new key in DATA_DIR; the former one signs it with the next certificate")
    .action(async () => printLine(rotateSigningKey(await findKeyPlace())[0].publicKey));
}

/** A configured key needs no folder and no database. */
async function findKeyPlace(): Promise<KeyPlace> {
  const config = readConfig();
  return config.certificateKey === null ? configureHere(config) : config;
}

async function check(file: string, options: CheckOptions): Promise<void> {
  const { key, day, states, json } = options;
  const trusted = readPublicKey(/^[\w+/]{43}=$/.test(key) ? key : readText(key).trim());
  const ownCertificate = await readCertificateOf(file);
  const text = ownCertificate ?? readText(file);
  const lines = text.split("\n").filter((line) => line !== "");
  const orders = options.orders ?? (ownCertificate === undefined ? undefined : file);
  const { certificates, statements, problem } = checkChain(lines, trusted);
  const certificate = certificates.findLast(
    ({ predicate }) => day === undefined || predicate.since === `${day}T00:00:00Z`,
  );
  const problems = problem === undefined ? [] : [`chain: ${problem}`];
  let notice = "No orders were compared.";
  if (certificate === undefined) problems.push("the file has no such certificate");
  else {
    if (certificate.revoked) problems.push("certificate: revoked by a later statement");
    if (orders !== undefined) {
      const compared = await compare(certificate, orders, states);
      problems.push(...compared.problems);
      notice = compared.notice;
    }
  }
  const { predicate = null } = certificate ?? {};
  if (json === true) printJson({ statements, certificate: predicate, problems });
  else {
    for (const line of problems) printLine(line);
    if (predicate !== null) {
      printNotice(
        `${predicate.source}, ${predicate.since} to ${predicate.until}: ${predicate.orders} orders, ${predicate.exceptions.length} exceptions, ${predicate.gone} gone, ${predicate.claimed} only claimed by events; statement ${predicate.serial}, issued ${predicate.issuedAt}.`,
      );
    }
    if (problems.length === 0) printNotice(`Signatures and links of ${statements} statements are right.`);
    if (predicate !== null) {
      printNotice(
        isCoveredByWindows(predicate)
          ? "The windows that it lists cover the period."
          : "The windows that it lists leave a part of the period open: the ledger no longer had the others when it was issued.",
      );
      printNotice(notice);
    }
  }
  if (problems.length > 0) throw new ProblemsFoundError("the certificate or the orders are not right");
}

interface Compared {
  /** What is wrong, row by row if the certified states are given. */
  readonly problems: readonly string[];
  /** What to know about the comparison. */
  readonly notice: string;
}

async function compare(
  certificate: CheckedCertificate,
  orders: string,
  statesFile: string | undefined,
): Promise<Compared> {
  const given = await readStates(orders);
  const found = compareStates(given.states, certificate);
  const notice = describeComparison({ ...found, hasContent: given.hasContent });
  if (found.equal) return { problems: [], notice };
  const count = `orders: ${found.orders} of the period in the file, ${certificate.predicate.orders} certified; they differ`;
  const repeated = found.repeated.map((reference) => `${reference}: occurs more than once`);
  const more = (texts: readonly string[]) => ({ problems: [count, ...repeated, ...texts], notice });
  if (statesFile === undefined) return more(["--states FILE would name each one that is missing or differs"]);
  const { states: certified } = await readStates(statesFile);
  if (!compareStates(certified, certificate).equal) {
    return more([`${statesFile} does not hold the certified states either`]);
  }
  return more(listDifferences(given.states, certified, certificate));
}

function describeComparison(found: { equal: boolean; outside: number; hasContent: boolean }): string {
  const { equal, outside, hasContent } = found;
  const texts = [
    equal ? "The orders of the period are exactly the certified ones." : "",
    outside > 0 ? `${outside} orders with an updatedAt outside the period were left out.` : "",
    hasContent
      ? ""
      : "They were compared by the content hashes that the file states; its other columns were not checked. NDJSON would be, too.",
  ];
  return texts.filter((text) => text !== "").join(" ");
}

function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw new ConfigurationError(`The file ${file} cannot be read.`, { cause });
  }
}
