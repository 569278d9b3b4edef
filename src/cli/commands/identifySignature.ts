import { readFileSync } from "node:fs";
import { buffer } from "node:stream/consumers";
import type { Command } from "commander";
import { ConfigurationError } from "../../domain/errors.ts";
import { ENVIRONMENT, readSecretFile } from "../../runtime/config/environment.ts";
import { identifyScheme } from "../../signature/identifyScheme.ts";
import type { CapturedRequest, Identification, SchemeMatch } from "../../signature/identifyScheme.ts";
import { parseCapturedRequest } from "../input/capturedRequest.ts";
import { ProblemsFoundError } from "../input/failure.ts";
import { promptSecret } from "../input/promptSecret.ts";
import { formatSpan, printJson, printLine, printNotice } from "../output/terminal.ts";

interface Options {
  readonly secretFile?: string;
  readonly url?: string;
  readonly json?: boolean;
}

const NEWLINE = 0x0a;

const HELP = `
The request is raw HTTP text, or JSON { "headers": { … }, "body": "…" } (or "bodyBase64").
The secret comes from IDENTIFY_SECRET, from --secret-file, or is asked for; never from a flag, where others see it.
Nothing is sent anywhere. Exit code 3 when no scheme fits.`;

export function addIdentifySignatureCommand(program: Command): void {
  program
    .command("identify-signature")
    .argument("[file]", "the captured request; - or nothing reads it from stdin", "-")
    .description("find out how the provider signs, from one captured webhook request and its secret")
    .option("--secret-file <file>", "file that holds the endpoint's webhook secret")
    .option("--url <address>", "public address of the endpoint, for schemes that sign it")
    .option("--json", "print JSON")
    .addHelpText("after", HELP)
    .action(async (file: string, options: Options) => {
      const fromStdin = file === "-";
      const request = parseCapturedRequest(fromStdin ? await readStdin() : readCapture(file));
      const secret = await readSecret(options.secretFile, { mayAsk: !fromStdin });
      const found = identify(request, { secret, url: options.url, nowSeconds: Date.now() / 1_000 });
      if (options.json === true) printJson(found);
      else printIdentification(found);
      if (found.matches.length === 0) throw new ProblemsFoundError("no scheme fits");
    });
}

/** Tries the body as it is, then without the newline that editors and `echo` put at the end of a file. */
function identify(
  request: CapturedRequest,
  options: { secret: string; url: string | undefined; nowSeconds: number },
): Identification {
  const found = identifyScheme({ request, ...options });
  if (found.matches.length > 0 || request.body.at(-1) !== NEWLINE) return found;
  return identifyScheme({ request: { ...request, body: request.body.subarray(0, -1) }, ...options });
}

function printIdentification(found: Identification): void {
  const [best, ...others] = found.matches;
  if (best === undefined) {
    printFailure(found);
    return;
  }
  printLine(`WEBHOOK_SCHEME=${quote(best.setting)}`);
  printNotice(`The signature in ${best.header} verifies; ${describeAge(best)}.`);
  for (const other of others) printNotice(`It also verifies as ${quote(other.setting)}.`);
  printNotice("Set this beside the webhook secret; `order-mirror doctor` then checks the endpoint.");
}

function printFailure({ lookedAt, needUrl }: Identification): void {
  printNotice("No scheme makes this signature from this body and this secret.");
  printNotice(
    lookedAt.length === 0
      ? "  No header looks like a signature."
      : `  Headers looked at: ${lookedAt.join(", ")}.`,
  );
  printNotice(
    "  fix: check that the secret is this endpoint's, and that the body is byte for byte what came",
  );
  printNotice("       (not printed again by a tool that parses JSON).");
  if (needUrl.length > 0) {
    printNotice(
      `       Not tried: ${needUrl.join(", ")}. They sign the endpoint's address; give it with --url.`,
    );
  }
}

function describeAge({ ageSeconds, toleranceSeconds }: SchemeMatch): string {
  if (ageSeconds === null) return "it signs no time, so an old request looks like a new one";
  const span = formatSpan(Math.abs(ageSeconds) * 1_000);
  const limit = `${toleranceSeconds} s are tolerated of a genuine one`;
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
    fix: "Put it into IDENTIFY_SECRET, or into a file and name that with --secret-file.",
  });
}
