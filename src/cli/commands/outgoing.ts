import type { Command } from "commander";
import { ConfigurationError } from "../../domain/errors.ts";
import { findFeedPlace } from "../../changes/changeFeed.sql.ts";
import type { Pool } from "../../database/database.ts";
import { replayFrom, reviveDead } from "../../outgoing/outgoingPlan.sql.ts";
import { countReplay, readDeliveries, readFeedPositionAt } from "../../outgoing/outgoingReads.sql.ts";
import { isAccepted } from "../../outgoing/outgoingDelivery.ts";
import { writeTestMessage } from "../../outgoing/outgoingMessage.ts";
import { makeSend } from "../../outgoing/outgoingSend.ts";
import { makeStandardSigner } from "../../signature/sign.ts";
import type { Delivery } from "../../outgoing/outgoingReads.sql.ts";
import { describeEndpoint, readOutgoingEndpoints } from "../../health/endpoints.sql.ts";
import type { OutgoingEndpoint } from "../../health/endpoints.sql.ts";
import { readFeedCursor } from "../../changes/feedCursor.ts";
import { systemClock } from "../../runtime/lifecycle/clock.ts";
import { resolveSince } from "../../runtime/config/duration.ts";
import { audited, isAgreed, readConfig, withMirror } from "../input/session.ts";
import {
  ProblemsFoundError,
  alignColumns,
  formatSpan,
  printJson,
  printLine,
  printNotice,
} from "../output/terminal.ts";

interface Answer {
  readonly json?: boolean;
  readonly yes?: boolean;
}

interface ReplayOptions extends Answer {
  readonly since?: string;
  readonly after?: string;
}

type Option = readonly [flags: string, meaning: string];

const SHOWN = 50;
const YES: Option = ["--yes", "do not ask for confirmation"];
const PLACE: readonly Option[] = [
  ["--since <when>", "changes since this instant or this long ago, such as PT2H"],
  ["--after <position>", "changes after this position: data.position of a message"],
];
const NOT_A_POSITION =
  "Give it as in data.position of a message or as in the feed; or use --since with an instant.";

/** `outgoing`: shows how the business's own endpoints receive their webhooks, and sends them again. */
export function register(program: Command): void {
  const outgoing = program.command("outgoing").description("inspect outgoing webhooks, and send them again");
  const add = (name: string, description: string, options: readonly Option[] = []) => {
    const command = outgoing.command(name).description(description);
    for (const [flags, meaning] of options) command.option(flags, meaning);
    return command.option("--json", "print JSON");
  };
  const addForEndpoint = (name: string, description: string, options?: readonly Option[]) =>
    add(name, description, options).argument("<endpoint>", "name of the endpoint");

  add("list", "list endpoints: messages waiting, messages given up, last delivery").action(
    (options: Answer) => withMirror(({ pool }) => list(pool, options)),
  );
  add("test", "send one message of the type test now, signed as all others, and print the answer")
    .argument("<endpoint>", "name of the endpoint in OUTGOING_WEBHOOKS_FILE")
    .action(sendTest);
  add("dead", `list the newest ${SHOWN} messages that were given up`)
    .argument("[endpoint]", "only this endpoint")
    .action((endpoint: string | undefined, options: Answer) =>
      withMirror(({ pool }) => showDead(pool, endpoint, options)),
    );
  addForEndpoint(
    "attempts",
    `list its newest ${SHOWN} messages: the last attempt, its duration, and the beginning of the answer`,
  ).action((endpoint: string, options: Answer) =>
    withMirror(({ pool }) => showAttempts(pool, endpoint, options)),
  );
  addForEndpoint("retry", "send all messages again that were given up", [YES]).action(
    (endpoint: string, options: Answer) => withMirror(({ pool }) => retry(pool, endpoint, options)),
  );
  const description = "send all changes again from a position in the feed on, under their original ids";
  addForEndpoint("replay", description, [...PLACE, YES]).action((endpoint: string, options: ReplayOptions) =>
    withMirror(({ pool }) => replay(pool, endpoint, options)),
  );
}

async function list(pool: Pool, { json }: Answer): Promise<void> {
  const endpoints = await readOutgoingEndpoints(pool);
  if (json === true) return printJson(endpoints);
  if (endpoints.length === 0)
    return printNotice("No endpoint is configured yet; see OUTGOING_WEBHOOKS_FILE.");
  const head = ["endpoint", "sources", "waiting", "given up", "last delivered", "state"];
  for (const line of alignColumns([head, ...endpoints.map(listEndpoint)])) printLine(line);
}

function listEndpoint(endpoint: OutgoingEndpoint): string[] {
  const { endpointId, sourceIds, pending, dead, newestDeliveredAt } = endpoint;
  const counts = [String(pending), String(dead), formatAgo(newestDeliveredAt)];
  return [endpointId, sourceIds.join(","), ...counts, describeEndpoint(endpoint)];
}

/** Throws ProblemsFoundError if the endpoint does not accept the message. */
async function sendTest(name: string, { json }: Answer): Promise<void> {
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

async function showDead(pool: Pool, endpoint: string | undefined, { json }: Answer): Promise<void> {
  if (endpoint !== undefined) await requireEndpoint(pool, endpoint);
  const dead = await readDeliveries(pool, { endpointId: endpoint ?? null, state: "dead", limit: SHOWN });
  if (json === true) return printJson(dead);
  if (dead.length === 0) return printNotice("No message was given up.");
  const head = ["endpoint", "source", "order", "type", "attempts", "last answer", "when"];
  for (const line of alignColumns([head, ...dead.map(describeDead)])) printLine(line);
  printNotice("Next: order-mirror outgoing retry ENDPOINT, once it answers again.");
}

function describeDead(dead: Delivery): string[] {
  const { endpointId, sourceId, reference, type, attempts, outcome, lastAttemptAt } = dead;
  return [
    endpointId,
    sourceId,
    reference ?? "",
    type,
    String(attempts),
    outcome ?? "none",
    formatAgo(lastAttemptAt),
  ];
}

async function showAttempts(pool: Pool, endpointId: string, { json }: Answer): Promise<void> {
  await requireEndpoint(pool, endpointId);
  const sent = await readDeliveries(pool, { endpointId, state: null, attempted: true, limit: SHOWN });
  if (json === true) return printJson(sent);
  if (sent.length === 0) return printNotice("No message was sent within the last week.");
  const head = ["when", "order", "attempt", "outcome", "duration", "answer"];
  for (const line of alignColumns([head, ...sent.map(describeAttempt)])) printLine(line);
}

function describeAttempt({
  lastAttemptAt,
  reference,
  attempts,
  outcome,
  durationMs,
  answer,
}: Delivery): string[] {
  const duration = durationMs === null ? "" : formatSpan(durationMs);
  const when = formatAgo(lastAttemptAt);
  return [when, reference ?? "", String(attempts), outcome ?? "none", duration, answer ?? ""];
}

async function retry(pool: Pool, endpoint: string, { yes, json }: Answer): Promise<void> {
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
  { since, after, sourceIds }: { since?: string; after?: string; sourceIds: readonly string[] },
): Promise<bigint> {
  if ((since === undefined) === (after === undefined)) {
    throw new ConfigurationError("The start of the replay is missing or ambiguous.", {
      fix: "Give either --since or --after.",
    });
  }
  if (since !== undefined) {
    return readFeedPositionAt(pool, resolveSince(since, systemClock.now()));
  }
  const cursor = readFeedCursor(after ?? "");
  if (cursor === undefined)
    throw new ConfigurationError("That is not a position of the feed.", { fix: NOT_A_POSITION });
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
