import { readFile } from "node:fs/promises";
import { Option } from "commander";
import type { Command } from "commander";
import { createMirrorClient } from "../../client/mirrorClient.ts";
import type { Change, CompleteRecord, FollowState, Order } from "../../client/mirrorClient.ts";
import { ConfigurationError } from "../../domain/errors.ts";
import { parseInstant } from "../../domain/order/instant.ts";
import { OUTGOING_FIELDS, outgoingTypeOf } from "../../domain/order/outgoing.ts";
import type { OutgoingFields } from "../../domain/order/outgoing.ts";
import { isAccepted } from "../../outgoing/outgoingDelivery.ts";
import type { SendMessage, SendResult } from "../../outgoing/outgoingDelivery.ts";
import { SHOWN_ORDER, wrapChange } from "../../outgoing/outgoingMessage.ts";
import type { OutgoingMessage } from "../../outgoing/outgoingMessage.ts";
import { makeSend } from "../../outgoing/outgoingSend.ts";
import { ProviderError } from "../../provider/errors.ts";
import { backoffMs } from "../../provider/transport.ts";
import type { Config } from "../../runtime/config/config.ts";
import { namesThisMachine } from "../../runtime/http/loopback.ts";
import { systemClock } from "../../runtime/lifecycle/clock.ts";
import { escapeControls } from "../../runtime/telemetry/escapeControls.ts";
import { makeStandardSigner } from "../../signature/sign.ts";
import { findRunningDemo } from "../demo/demoFolder.ts";
import { runUntilInterrupted } from "../input/interrupts.ts";
import { openListenState } from "../input/listenState.ts";
import { readConfig } from "../input/session.ts";
import { formatSpan, printLine, printNotice } from "../output/terminal.ts";

interface Options {
  readonly forward: string;
  readonly url?: string;
  readonly tokenFile?: string;
  readonly source: string;
  readonly after: string;
  readonly state: string;
  readonly fields: OutgoingFields;
  readonly json?: boolean;
}

/** `listen`: a developer's machine gets every change as outgoing webhooks bring it, without an address of its own. */
export function register(program: Command): void {
  program
    .command("listen")
    .description("send every change to an address on this machine, as outgoing webhooks do, until Ctrl-C")
    .requiredOption("--forward <address>", "where to send the messages, such as http://localhost:8080/hooks")
    .option("--url <address>", "the mirror's address; default: that of the demo in this folder, or PORT")
    .option("--token-file <file>", "file with a token of the mirror; default: one of API_TOKENS, if set")
    .option("--source <id>", "the source, which must be that of the token", "live")
    .option("--after <position>", "where the first run begins: latest, beginning or a position", "latest")
    .option("--state <file>", "keeps the position and the signing secret", ".order-mirror-listen")
    .addOption(
      new Option("--fields <which>", "what a message shows of the order, as in OUTGOING_WEBHOOKS_FILE")
        .choices(OUTGOING_FIELDS)
        .default("redacted"),
    )
    .option("--json", "print each message, and up to when they are complete, as a line of JSON")
    .action((options: Options) => runUntilInterrupted((signal) => listen(options, signal)));
}

async function listen(options: Options, signal: AbortSignal): Promise<void> {
  const { source, after, state, fields } = options;
  const config = readConfig();
  const url = readAddress(options.forward);
  const demo = await findRunningDemo(config.dataDir);
  const baseUrl = options.url ?? `http://127.0.0.1:${demo?.port ?? config.port}`;
  const token = await readToken(options, config);
  const mirror = createMirrorClient({ baseUrl, source, ...(token === undefined ? {} : { token }) });
  const { secret, store } = await openListenState(state);
  const sign = makeStandardSigner([secret]);
  const send = makeSend({ url: url.href, sign, clock: systemClock, allowPrivate: true, signal });
  // Without a password or a token that the address may have.
  const shown = url.origin + url.pathname;
  printNotice(`Changes of ${source} on ${baseUrl} go to ${shown}. Signing secret: ${secret}`);
  try {
    const onComplete = (record: CompleteRecord) => printComplete(record, options.json === true);
    for await (const change of mirror.changes({ after, store, signal, onState: printState, onComplete })) {
      const message = writeChangeMessage(change, { sourceId: source, fields });
      await deliver({ change, message, send, signal, json: options.json === true });
    }
  } catch (error) {
    if (signal.aborted && error === signal.reason) return;
    if (!(error instanceof ProviderError) || error.code !== "feed_restarted") throw error;
    const message = "The mirror no longer has the changes after this position.";
    throw new ConfigurationError(message, {
      cause: error,
      fix: `Start with --after latest, and without "position" in ${state}. The signing secret there stays.`,
    });
  }
}

/** Sends until the message is accepted: the next one may need it. */
async function deliver(deps: {
  change: Change;
  message: OutgoingMessage;
  send: SendMessage;
  signal: AbortSignal;
  json: boolean;
}): Promise<void> {
  const { change, message, send, signal } = deps;
  for (let attempt = 1; ; attempt += 1) {
    const answer = await send(message);
    signal.throwIfAborted();
    const accepted = isAccepted(answer);
    print({ change, message, answer, json: deps.json });
    if (accepted) return;
    const waitMs = backoffMs(attempt, Math.random);
    printNotice(`It is sent again in ${formatSpan(waitMs)}, and later changes wait for it.`);
    await systemClock.sleep(waitMs, signal);
  }
}

/** The message that an endpoint of outgoing webhooks gets for the change. */
function writeChangeMessage(
  change: Change,
  { sourceId, fields }: { sourceId: string; fields: OutgoingFields },
): OutgoingMessage {
  const { verdict } = change;
  const show = (order: Order | null) => {
    const shown = order === null ? null : SHOWN_ORDER[fields](JSON.stringify(order));
    return shown === null ? null : (JSON.parse(shown) as unknown);
  };
  if (verdict === "snapshot") throw new TypeError("the feed has no snapshots");
  return wrapChange({
    ...change,
    verdict,
    sourceId,
    type: outgoingTypeOf(change),
    version: parseInstant(change.updatedAt),
    changedAt: parseInstant(change.changedAt),
    text: JSON.stringify({ ...change, before: show(change.before), after: show(change.after) }),
  });
}

function print(sent: { change: Change; message: OutgoingMessage; answer: SendResult; json: boolean }): void {
  const { change, message, answer } = sent;
  const outcome = answer.kind === "answered" ? String(answer.status) : answer.code;
  const { reference, revision, status } = change;
  const fields = { id: message.id, type: outgoingTypeOf(change), reference, revision, status, outcome };
  const text = [fields.type, reference, status, outcome].map((each) => escapeControls(each)).join("  ");
  printLine(sent.json ? JSON.stringify(fields) : text);
}

/** Everything before it was sent and accepted. */
function printComplete({ through, exceptions }: CompleteRecord, json: boolean): void {
  if (json) printLine(JSON.stringify({ type: "complete", through, exceptions }));
  else
    printNotice(`Complete up to ${through}${exceptions === 0 ? "" : `, except for ${exceptions} orders`}.`);
}

function printState(state: FollowState): void {
  if (state.state === "following") printNotice("Following.");
  if (state.state === "waiting")
    printNotice(`${state.error.message}. Trying again in ${formatSpan(state.retryMs)}.`);
}

function readAddress(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== "http:" && url?.protocol !== "https:") {
    throw new ConfigurationError("--forward is not an http or https address.", {
      fix: "Write it like http://localhost:8080/hooks.",
    });
  }
  if (url.protocol === "https:" || namesThisMachine(url.host)) return url;
  throw new ConfigurationError(
    "--forward is an http address of another machine: anybody on the way could read orders.",
    { fix: "Start it with https://, or forward to this machine." },
  );
}

/** Undefined for a mirror on this machine with LOCAL_TRUST. */
async function readToken({ tokenFile, source }: Options, config: Config): Promise<string | undefined> {
  if (tokenFile !== undefined) return (await readFile(tokenFile, "utf8")).trim();
  return config.apiTokens.find(({ sourceId }) => sourceId === source)?.token;
}
