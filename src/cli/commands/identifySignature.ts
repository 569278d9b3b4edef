import { readFileSync } from "node:fs";
import { buffer } from "node:stream/consumers";
import { readFile, readdir } from "node:fs/promises";
import path from "node:path";
import type { Command } from "commander";
import { ConfigurationError } from "../../domain/errors.ts";
import { readSecretFile } from "../../runtime/config/environment.ts";
import { ENVIRONMENT } from "../../runtime/config/processEnvironment.ts";
import { webhookUrl } from "../../runtime/config/sources.ts";
import { identifyScheme, verifiesAll } from "../../signature/identify.ts";
import type {
  CapturedRequest,
  Identification,
  IdentifyOptions,
  SchemeMatch,
} from "../../signature/identify.ts";
import { readConfig } from "../input/session.ts";
import { parseCapturedRequest } from "../input/capturedRequest.ts";
import { ProblemsFoundError, formatSpan, printJson, printLine, printNotice } from "../output/terminal.ts";
import { refusedFolder } from "../../receive/refusedRequests.ts";

interface Options {
  readonly secretFile?: string;
  readonly url?: string;
  readonly source?: string;
  readonly json?: boolean;
}

const NEWLINE = 0x0a;

const HELP = `
Without a file it reads the refused requests that web stores under DATA_DIR while CAPTURE_REFUSED is set, and uses the configured secrets.
A request in a file is raw HTTP text, or JSON { "headers": { … }, "body": "…" } (or "bodyBase64"; "target" for path and query).
Add a second request with another body: it proves the result of the first.
The secret comes from IDENTIFY_SECRET, from --secret-file, or from a prompt; never from a flag, where others see it.
If the sender signs with a private key, give the public key: whpk_…, PEM, or base64 of its DER.
Nothing is sent anywhere. Exits with code 3 if no scheme matches.`;

export function register(program: Command): void {
  program
    .command("identify-signature")
    .argument(
      "[files...]",
      "captured requests of one endpoint; - reads one from stdin; none: the requests stored by web",
    )
    .description("find out how the provider signs webhooks, from captured requests and their secret")
    .option("--secret-file <file>", "file that holds the endpoint's webhook secret")
    .option(
      "--url <address>",
      "public address of the endpoint, for schemes that sign it (default: from PUBLIC_URL)",
    )
    .option("--source <id>", "the source whose stored requests to use; required if there are several")
    .option("--json", "print JSON")
    .addHelpText("after", HELP)
    .action(async (files: string[], options: Options) => {
      const found = files.length === 0 ? await identifyKept(options) : await identifyFiles(files, options);
      if (options.json === true) printJson(found);
      else printIdentification(found, options);
      if (found.matches.length === 0) throw new ProblemsFoundError("no scheme matches");
    });
}

async function identifyFiles(files: readonly string[], options: Options): Promise<Identification> {
  const fromStdin = files.length === 1 && files[0] === "-";
  const captures = fromStdin ? [await readStdin()] : files.map(readCapture);
  const requests = captures.map(parseCapturedRequest);
  const secret = await readSecret(options.secretFile, { mayAsk: !fromStdin });
  return identify({ requests, secret, url: options.url, nowSeconds: Date.now() / 1_000 });
}

/**
 * Tries each stored request, newest first, with each secret of the source: any of them may be a stranger's. The
 * schemes that verify one are then tested on the others, and the one that verifies the most is identified.
 */
async function identifyKept(options: Options): Promise<Identification> {
  const config = readConfig();
  const { sourceId, requests } = await readKeptRequests(config.dataDir, options.source);
  const configured = config.sources.find((source) => source.sourceId === sourceId)?.webhookSecrets ?? [];
  const isGiven = options.secretFile !== undefined || ENVIRONMENT["IDENTIFY_SECRET"] !== undefined;
  const secrets =
    isGiven || configured.length === 0
      ? [await readSecret(options.secretFile, { mayAsk: true })]
      : configured;
  const shared = {
    url: options.url ?? webhookUrl(config.publicUrls, sourceId),
    nowSeconds: Date.now() / 1_000,
  };
  printNotice(`Examining ${requests.length} refused requests of ${sourceId}.`);
  let likeliest: Identification | undefined;
  for (const request of requests) {
    for (const secret of secrets) {
      const found = identifyScheme({ ...shared, requests: [request], secret });
      if (found.matches.length > 0) {
        const others = requests.filter((other) => other !== request);
        const verified = found.matches
          .map(({ scheme }) => [
            request,
            ...others.filter((other) => verifiesAll(scheme, { ...shared, requests: [other], secret })),
          ])
          .reduce((most, each) => (each.length > most.length ? each : most));
        printNotice(
          `A scheme verifies ${verified.length} of ${requests.length} refused requests of ${sourceId}.`,
        );
        printNotice("Unset CAPTURE_REFUSED afterwards: web then removes them.");
        return identifyScheme({ ...shared, requests: verified, secret });
      }
      if (likeliest === undefined || likeliest.closest === null) likeliest = found;
    }
  }
  return likeliest ?? { matches: [], closest: null, lookedAt: [], tried: 0 };
}

/** Tries the bodies unchanged, then without the newline that editors and `echo` append to a file. */
function identify(options: IdentifyOptions): Identification {
  const found = identifyScheme(options);
  if (found.matches.length > 0 || !options.requests.some(({ body }) => body.at(-1) === NEWLINE)) return found;
  return identifyScheme({ ...options, requests: options.requests.map(withoutNewline) });
}

function withoutNewline(request: CapturedRequest): CapturedRequest {
  const { body } = request;
  return body.at(-1) === NEWLINE ? { ...request, body: body.subarray(0, -1) } : request;
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
      : "Add a second request with another body to prove it: one request cannot show what changes between requests.",
  );
  if (best.preset === null) printNotice(`The whole scheme: ${JSON.stringify(best.scheme)}`);
  for (const other of others) printNotice(`It also verifies as ${quote(other.setting)}.`);
  if (best.signsUrl)
    printNotice("It signs the address: set PUBLIC_URL to what the provider has before /webhooks/.");
  printNotice("Set this beside the webhook secret; `order-mirror doctor` then checks the endpoint.");
}

function printFailure({ lookedAt, tried, closest }: Identification, url: string | undefined): void {
  printNotice("No scheme produces this signature from this body and this secret.");
  if (closest !== null)
    printNotice(`  The closest is ${closest.preset}: ${closest.reason.replaceAll("_", " ")}.`);
  printNotice(
    lookedAt.length === 0
      ? "  No header is long enough to hold a signature."
      : `  Searched: ${lookedAt.join(", ")}; tried ${tried.toLocaleString("en")} schemes.`,
  );
  printNotice(
    "  fix: check that the secret is this endpoint's, and that the body is byte for byte what was received",
  );
  printNotice("       (not reformatted by a tool that parses JSON).");
  if (url === undefined) {
    printNotice(
      "       Schemes that sign the endpoint's address were not tried; give the address with --url.",
    );
  }
}

function describeAge({ ageSeconds, toleranceSeconds }: SchemeMatch): string {
  if (ageSeconds === null) return "it does not sign the time, so an old request looks like a new one";
  const span = formatSpan(Math.abs(ageSeconds) * 1_000);
  const limit = `tolerance: ${toleranceSeconds} s`;
  return ageSeconds < 0 ? `signed ${span} in the future (${limit})` : `signed ${span} ago (${limit})`;
}

function quote(setting: string): string {
  return setting.startsWith("{") ? `'${setting}'` : setting;
}

async function readStdin(): Promise<Buffer> {
  if (process.stdin.isTTY) printNotice("Paste the request, then press Ctrl-D.");
  return buffer(process.stdin);
}

function readCapture(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new ConfigurationError(`The captured request ${file} cannot be read.`, { cause: error });
  }
}

async function readSecret(file: string | undefined, { mayAsk }: { mayAsk: boolean }): Promise<string> {
  const fromEnvironment = (ENVIRONMENT["IDENTIFY_SECRET"] ?? "").trim();
  if (file !== undefined) {
    const found = readSecretFile(file);
    if ("text" in found) return found.text;
    throw new ConfigurationError(`--secret-file names ${file}, which ${found.problem}.`);
  }
  if (fromEnvironment !== "") return fromEnvironment;
  if (mayAsk && process.stdin.isTTY) {
    const typed = (await promptSecret("Webhook secret (not shown): ")).trim();
    if (typed !== "") return typed;
  }
  throw new ConfigurationError("No webhook secret was given.", {
    fix: "Put it into IDENTIFY_SECRET, or into a file and name the file with --secret-file.",
  });
}

/** What web has kept of one source's refused requests, newest first; at least one. */
export interface KeptRequests {
  readonly sourceId: string;
  readonly requests: readonly CapturedRequest[];
}

/**
 * Reads what CAPTURE_REFUSED has web keep under `dataDir`, of the named source or of the only one. Throws ConfigurationError
 * when nothing is kept, or when it is not clear which source is meant.
 */
export async function readKeptRequests(dataDir: string, named: string | undefined): Promise<KeptRequests> {
  const folder = refusedFolder(dataDir);
  const kept = await readFolder(folder);
  const sourceIds = named === undefined ? [...new Set(kept.map(({ sourceId }) => sourceId))] : [named];
  const [sourceId = "", ...others] = sourceIds;
  if (others.length > 0) {
    throw new ConfigurationError("It is not clear which source is meant.", {
      fix: `Say it with --source. There are: ${sourceIds.sort().join(", ")}.`,
    });
  }
  const requests = kept.filter((one) => one.sourceId === sourceId).map(({ request }) => request);
  if (requests.length > 0) return { sourceId, requests };
  throw new ConfigurationError(
    `No refused request${named === undefined ? "" : ` of ${named}`} is kept in ${folder}.`,
    {
      fix: "Set CAPTURE_REFUSED=10 where web runs, restart it, wait for the next event, and run this with the same DATA_DIR. Or name a file with a captured request; - reads one from stdin.",
    },
  );
}

async function readFolder(folder: string): Promise<{ sourceId: string; request: CapturedRequest }[]> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw new ConfigurationError(`${folder} cannot be read (${error.code ?? error.message}).`, {
      cause: error,
      fix: "Run this as the account of the web process, or as root.",
    });
  });
  const newestFirst = names
    .filter((name) => name.endsWith(".json"))
    .toSorted()
    .toReversed();
  const kept = newestFirst.map(async (name) => {
    // Web may have removed it meanwhile.
    const bytes = await readFile(path.join(folder, name)).catch(() => undefined);
    if (bytes === undefined) return [];
    const { source } = JSON.parse(bytes.toString("utf8")) as { source: string };
    return [{ sourceId: source, request: parseCapturedRequest(bytes) }];
  });
  return (await Promise.all(kept)).flat();
}

const ENTER = new Set(["\r", "\n"]);
const END_OF_INPUT = "\u0004";
const INTERRUPT = "\u0003";
const ERASE = new Set(["\u007f", "\b"]);

/** Asks for a secret on the terminal without showing it. Throws ConfigurationError if the user cancels. */
export function promptSecret(question: string): Promise<string> {
  const { stdin } = process;
  // Switch to raw mode before asking: otherwise the terminal echoes whatever is typed early.
  stdin.setRawMode(true).setEncoding("utf8").resume();
  process.stderr.write(question);
  return new Promise((resolve, reject) => {
    let typed = "";
    const finish = () => {
      stdin.off("data", read);
      stdin.setRawMode(false).pause();
      process.stderr.write("\n");
    };
    const read = (text: string) => {
      for (const character of text) {
        if (ENTER.has(character)) {
          finish();
          resolve(typed);
          return;
        }
        if (character === INTERRUPT || character === END_OF_INPUT) {
          finish();
          reject(new ConfigurationError("No secret was given."));
          return;
        }
        typed = ERASE.has(character) ? typed.slice(0, -1) : typed + character;
      }
    };
    stdin.on("data", read);
  });
}
