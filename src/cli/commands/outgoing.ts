import { Option } from "commander";
import type { Command } from "commander";
import type { Instant } from "../../domain/order/instant.ts";
import { ConfigurationError } from "../../domain/errors.ts";
import { findFeedPlace } from "../../changes/changeFeed.sql.ts";
import type { Pool } from "../../database/database.ts";
import { countReplay, readFeedPositionAt, replayFrom, reviveDead } from "../../outgoing/outgoingPlan.sql.ts";
import { isAccepted } from "../../outgoing/outgoingDelivery.ts";
import { writeTestMessage } from "../../outgoing/outgoingMessage.ts";
import { makeSend } from "../../outgoing/outgoingSend.ts";
import { makeStandardSigner } from "../../signature/sign.ts";
import { describeEndpoint, readOutgoingEndpoints } from "../../health/endpoints.sql.ts";
import type { OutgoingEndpoint } from "../../health/endpoints.sql.ts";
import { readFeedCursor } from "../../changes/changeJson.ts";
import { systemClock } from "../../runtime/lifecycle/clock.ts";
import { audited, isAgreed, parseWhen, readConfig, withMirror } from "../input/session.ts";
import { ProblemsFoundError, formatSpan } from "../output/terminal.ts";
import { printJson, printLine, printNotice, printTable } from "../output/terminal.ts";

interface Options {
  readonly json?: boolean;
  readonly yes?: boolean;
}

interface ReplayOptions extends Options {
  readonly since?: Instant;
  readonly after?: string;
}

/** `outgoing`: shows the business's own endpoints, tests them, and sends messages again; /ops/outgoing shows each. */
export function register(program: Command): void {
  const outgoing = program.command("outgoing").description("inspect outgoing webhooks, and send them again");
  const add = (name: string, description: string) =>
    outgoing.command(name).description(description).option("--json", "print JSON");
  const NAME = "name of the endpoint";
  const YES = ["--yes", "do not ask for confirmation"] as const;

  add("list", "list endpoints: messages waiting, messages given up, last delivery").action(
    (options: Options) => withMirror(({ pool }) => list(pool, options)),
  );
  add("test", "send one message of the type test now, signed as all others, and print the answer")
    .argument("<endpoint>", "name of the endpoint in OUTGOING_WEBHOOKS_FILE")
    .action(sendTest);
  add("retry", "send all messages again that were given up")
    .argument("<endpoint>", NAME)
    .option(...YES)
    .action((endpoint: string, options: Options) => withMirror(({ pool }) => retry(pool, endpoint, options)));
  add("replay", "send all changes again from a position in the feed on, under their original ids")
    .argument("<endpoint>", NAME)
    .addOption(
      new Option("--since <when>", "changes since this instant or this long ago, such as PT2H")
        .argParser(parseWhen)
        .conflicts("after"),
    )
    .option("--after <position>", "changes after this position: data.position of a message")
    .option(...YES)
    .action((endpoint: string, options: ReplayOptions) =>
      withMirror(({ pool }) => replay(pool, endpoint, options)),
    );
}

async function list(pool: Pool, { json }: Options): Promise<void> {
  const endpoints = await readOutgoingEndpoints(pool);
  if (json === true) return printJson(endpoints);
  if (endpoints.length === 0)
    return printNotice("No endpoint is configured yet; see OUTGOING_WEBHOOKS_FILE.");
  const head = ["endpoint", "sources", "waiting", "given up", "last delivered", "state"];
  printTable([head, ...endpoints.map(listEndpoint)]);
}

function listEndpoint(endpoint: OutgoingEndpoint): string[] {
  const { endpointId, sourceIds, pending, dead, newestDeliveredAt } = endpoint;
  const counts = [String(pending), String(dead), formatAgo(newestDeliveredAt)];
  return [endpointId, sourceIds.join(","), ...counts, describeEndpoint(endpoint)];
}

/** Throws ProblemsFoundError if the endpoint does not accept the message. */
async function sendTest(name: string, { json }: Options): Promise<void> {
  const { outgoingWebhooks } = readConfig();
  const endpoint = outgoingWebhooks.find(({ endpointId }) => endpointId === name);
  if (endpoint === undefined) {
    const fix = "Name one of OUTGOING_WEBHOOKS_FILE; run the command where the worker has that file.";
    throw new ConfigurationError(`No endpoint ${name} is configured here.`, { fix });
  }
  const { url, secrets, sourceIds } = endpoint;
  const send = makeSend({ url, sign: makeStandardSigner(secrets), clock: systemClock });
  const message = writeTestMessage({ sourceId: sourceIds[0] ?? "", now: systemClock.now() });
  const answer = await send(message);
  const durationMs = Math.round(answer.durationMs);
  const accepted = isAccepted(answer);
  const outcome = answer.kind === "answered" ? `status ${answer.status}` : answer.code;
  if (json === true) printJson({ endpoint: name, id: message.id, accepted, outcome, durationMs });
  else printLine(`${accepted ? "accepted" : "not accepted"}: ${outcome} after ${formatSpan(durationMs)}`);
  if (!accepted) throw new ProblemsFoundError(`The endpoint ${name} did not accept the message.`);
}

async function retry(pool: Pool, endpoint: string, { yes, json }: Options): Promise<void> {
  const { dead } = await requireEndpoint(pool, endpoint);
  if (dead > 0 && !(await isAgreed({ yes }, `Send ${dead} messages to ${endpoint} again?`))) return;
  const action = { action: "outgoing", sourceId: null, target: `retry ${endpoint}` };
  const revived = await audited(pool, action, () => reviveDead(pool, endpoint), Number);
  if (json === true) return printJson({ endpoint, revived });
  printLine(`${revived} messages will be sent to ${endpoint} again.`);
}

async function replay(pool: Pool, endpoint: string, options: ReplayOptions): Promise<void> {
  const { sourceIds } = await requireEndpoint(pool, endpoint);
  const from = await readPlace(pool, { ...options, sourceIds });
  const wanted = { endpointId: endpoint, from };
  const changes = await countReplay(pool, wanted);
  const question = `Send ${endpoint} its selection of ${changes} changes again?`;
  if (changes > 0 && !(await isAgreed(options, question))) return;
  const action = { action: "outgoing", sourceId: null, target: `replay to ${endpoint}` };
  const replayed =
    changes > 0 &&
    (await audited(
      pool,
      action,
      () => replayFrom(pool, wanted),
      () => changes,
    ));
  if (options.json === true) return printJson({ endpoint, changes, replayed });
  printLine(
    replayed
      ? `${changes} changes are being checked again for ${endpoint}.`
      : "No change since then has been sent already.",
  );
}

async function readPlace(
  pool: Pool,
  { since, after, sourceIds }: { since?: Instant; after?: string; sourceIds: readonly string[] },
): Promise<bigint> {
  if (since !== undefined) return readFeedPositionAt(pool, since);
  if (after === undefined)
    throw new ConfigurationError("The start of the replay is missing.", {
      fix: "Give either --since or --after.",
    });
  const cursor = readFeedCursor(after);
  if (cursor === undefined)
    throw new ConfigurationError("That is not a position of the feed.", {
      fix: "Give it as in data.position of a message or as in the feed; or use --since with an instant.",
    });
  // Only the source of the change at the position knows it.
  for (const sourceId of sourceIds) {
    const place = await findFeedPlace(pool, { sourceId, cursor });
    if (place !== undefined) return place;
  }
  throw new ConfigurationError("The database no longer has that position.", {
    fix: "Use --since with an instant instead.",
  });
}

async function requireEndpoint(pool: Pool, endpoint: string): Promise<OutgoingEndpoint> {
  const endpoints = await readOutgoingEndpoints(pool);
  const found = endpoints.find(({ endpointId }) => endpointId === endpoint);
  if (found !== undefined) return found;
  const names = endpoints.map(({ endpointId }) => endpointId).join(", ");
  throw new ConfigurationError(`There is no endpoint ${endpoint}.`, {
    fix:
      names === ""
        ? "No endpoint is configured yet; see OUTGOING_WEBHOOKS_FILE."
        : `Known endpoints: ${names}.`,
  });
}

function formatAgo(seconds: number | null): string {
  return seconds === null ? "never" : `${formatSpan(Math.max(0, Date.now() - seconds * 1_000))} ago`;
}
