import type { Command } from "commander";
import { ConfigurationError } from "../../domain/errors.ts";
import { readRefusedRequests, refusedFolder } from "../../receive/refusedRequests.ts";
import { ENVIRONMENT } from "../../config/environment.ts";
import { webhookUrl } from "../../config/sources.ts";
import {
  identifyScheme,
  verifiesAll,
  type CapturedRequest,
  type Identification,
  type SchemeMatch,
} from "../../signature/identify.ts";
import { readConfig } from "../input/session.ts";
import {
  ProblemsFoundError,
  countOf,
  formatAge,
  printJson,
  printLine,
  printNotice,
} from "../output/terminal.ts";

interface Options {
  readonly url?: string;
  readonly source?: string;
  readonly json?: boolean;
}

const HELP = `
It reads the refused requests that web stores under DATA_DIR while CAPTURE_REFUSED is set, and tries the configured secrets; or the one
in IDENTIFY_SECRET, if the secret does not suit WEBHOOK_SCHEME yet.
If the sender signs with a private key, the secret is the public key: whpk_…, or its 32 bytes in base64 or hex.
Nothing is sent anywhere. Exits with code 3 if no scheme matches.`;

export function register(program: Command): void {
  program
    .command("identify-signature")
    .description("find out how the provider signs webhooks, from refused requests and their secret")
    .option(
      "--url <address>",
      "public address of the endpoint, for schemes that sign it (default: from PUBLIC_URL)",
    )
    .option("--source <id>", "the source whose stored requests to use; required if there are several")
    .option("--json", "print JSON")
    .addHelpText("after", HELP)
    .action(async (options: Options) => {
      const found = await identify(options);
      if (options.json === true) printJson(found);
      else printIdentification(found, options);
      if (found.matches.length === 0) throw new ProblemsFoundError("no scheme matches");
    });
}

/**
 * Tries each stored request, newest first, with each secret of the source: any of them may be a stranger's. The
 * schemes that verify one are then tested on the others, and the one that verifies the most is identified.
 */
async function identify(options: Options): Promise<Identification> {
  const config = readConfig();
  const { sourceId, requests } = await readKeptRequests(config.dataDir, options.source);
  const given = (ENVIRONMENT["IDENTIFY_SECRET"] ?? "").trim();
  const configured = config.sources.find((source) => source.sourceId === sourceId)?.webhookSecrets ?? [];
  const secrets = given === "" ? configured : [given];
  if (secrets.length === 0) {
    throw new ConfigurationError(`No webhook secret of ${sourceId} is configured.`, {
      fix: "Put it into IDENTIFY_SECRET.",
    });
  }
  const url = options.url ?? webhookUrl(config.publicUrls, sourceId);
  const shared = { url, nowSeconds: Date.now() / 1_000 };
  printNotice(`Examining ${countOf(requests.length, "refused request")} of ${sourceId}.`);
  let likeliest: Identification | undefined;
  for (const request of requests) {
    for (const secret of secrets) {
      const found = identifyScheme({ ...shared, requests: [request], secret });
      if (found.matches.length > 0) {
        const verified = found.matches
          .map(({ scheme }) =>
            requests.filter((each) => verifiesAll(scheme, { ...shared, requests: [each], secret })),
          )
          .reduce((most, each) => (each.length > most.length ? each : most));
        printNotice(
          `A scheme verifies ${verified.length} of ${countOf(requests.length, "refused request")} of ${sourceId}.`,
        );
        printNotice("Unset CAPTURE_REFUSED afterwards: web then removes them.");
        return identifyScheme({ ...shared, requests: verified, secret });
      }
      if (likeliest === undefined || likeliest.closest === null) likeliest = found;
    }
  }
  return likeliest ?? { matches: [], closest: null, lookedAt: [] };
}

function printIdentification(found: Identification, { url }: Options): void {
  const [best, ...others] = found.matches;
  if (best === undefined) {
    printFailure(found, url);
    return;
  }
  printLine(`WEBHOOK_SCHEME=${quote(best.setting)}`);
  printNotice(`The signature in ${best.field} verifies; ${describeAge(best)}.`);
  printNotice(
    best.requests > 1
      ? `It verifies all ${best.requests} requests, and rejects their signatures on any other body.`
      : "Wait for a second request with another body to prove it: one request cannot show what changes between requests.",
  );
  if (best.preset === null) printNotice(`The whole scheme: ${JSON.stringify(best.scheme)}`);
  for (const other of others) printNotice(`It also verifies as ${quote(other.setting)}.`);
  if (best.signsUrl)
    printNotice("It signs the address: set PUBLIC_URL to what the provider has before /webhooks/.");
  printNotice("Set this beside the webhook secret; `order-mirror doctor` then checks the endpoint.");
}

function printFailure({ lookedAt, closest }: Identification, url: string | undefined): void {
  printNotice("No scheme produces this signature from this body and this secret.");
  if (closest !== null)
    printNotice(`  The closest is ${closest.preset}: ${closest.reason.replaceAll("_", " ")}.`);
  printNotice(
    lookedAt.length === 0
      ? "  No header is long enough to hold a signature."
      : `  Searched: ${lookedAt.join(", ")}.`,
  );
  printNotice("  fix: check that the secret is this endpoint's.");
  if (url === undefined)
    printNotice("       Schemes that sign the endpoint's address need it: PUBLIC_URL or --url.");
}

function describeAge({ ageSeconds, scheme: { toleranceSeconds } }: SchemeMatch): string {
  if (ageSeconds === null) return "it does not sign the time, so an old request looks like a new one";
  return `signed ${formatAge(ageSeconds)} (tolerance: ${toleranceSeconds} s)`;
}

function quote(setting: string): string {
  return setting.startsWith("{") ? `'${setting}'` : setting;
}

/**
 * Reads what CAPTURE_REFUSED has web keep under `dataDir`, of the named source or of the only one, newest first. Throws
 * ConfigurationError when nothing is kept, or when it is not clear which source is meant.
 */
async function readKeptRequests(dataDir: string, named: string | undefined) {
  const folder = refusedFolder(dataDir);
  const kept = await readRefusedRequests(folder);
  const sourceIds = named === undefined ? [...new Set(kept.map(({ sourceId }) => sourceId))] : [named];
  const [sourceId = "", ...others] = sourceIds;
  if (others.length > 0) {
    throw new ConfigurationError("It is not clear which source is meant.", {
      fix: `Say it with --source. There are: ${sourceIds.sort().join(", ")}.`,
    });
  }
  const requests: CapturedRequest[] = kept
    .filter((one) => one.sourceId === sourceId)
    .map(({ headers, target, body }) => ({ headersDistinct: headers, target, body }));
  if (requests.length > 0) return { sourceId, requests };
  throw new ConfigurationError(
    `No refused request${named === undefined ? "" : ` of ${named}`} is kept in ${folder}.`,
    {
      fix: "Set CAPTURE_REFUSED=10 where web runs, restart it, wait for the next event, and run this with the same DATA_DIR.",
    },
  );
}
