import type { Command } from "commander";
import { describeDelay } from "../../domain/duration.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { ConfigurationError } from "../../domain/errors.ts";
import { wordFor } from "../../domain/wordFor.ts";
import type { Pool } from "../../database/database.ts";
import {
  planTest,
  readFeedPositionAt,
  removeEndpoint,
  replayFrom,
  sendNow,
} from "../../outgoing/outgoingEndpoints.sql.ts";
import {
  describeEndpoint,
  readOutgoingEndpoints,
  type OutgoingEndpoint,
} from "../../health/conditions/endpoints.sql.ts";
import { audited, isAgreed, parseWhen, withMirror } from "../input/session.ts";
import { countOf, formatAge, printJson, printLine, printNotice, printTable } from "../output/terminal.ts";

interface Options {
  readonly json?: boolean;
  readonly yes?: boolean;
}

interface ReplayOptions extends Options {
  readonly since: Instant;
}

/** `outgoing`: shows the business's own endpoints, and sends messages again; /ops/outgoing shows each. */
export function register(program: Command): void {
  const outgoing = program
    .command("outgoing")
    .description("inspect, try and remove endpoints of outgoing webhooks, and send messages again");
  const add = (name: string, description: string) =>
    outgoing.command(name).description(description).option("--json", "print JSON");
  const NAME = "name of the endpoint";
  const YES = ["--yes", "do not ask for confirmation"] as const;

  add("list", "list endpoints: messages waiting, next attempt, messages given up, last delivery").action(
    (options: Options) => withMirror(({ pool }) => list(pool, options)),
  );
  add("retry", "send all messages again that were given up, and at once those that wait")
    .argument("<endpoint>", NAME)
    .option(...YES)
    .action((endpoint: string, options: Options) => withMirror(({ pool }) => retry(pool, endpoint, options)));
  add("replay", "send all changes since an instant again, under their original ids")
    .argument("<endpoint>", NAME)
    .requiredOption("--since <when>", "changes since this instant or this long ago, such as PT2H", parseWhen)
    .option(...YES)
    .action((endpoint: string, options: ReplayOptions) =>
      withMirror(({ pool }) => replay(pool, endpoint, options)),
    );
  add("test", "send a test message")
    .argument("<endpoint>", NAME)
    .action((endpoint: string, options: Options) => withMirror(({ pool }) => test(pool, endpoint, options)));
  add("remove", "forget an endpoint that no worker lists, with its messages")
    .argument("<endpoint>", NAME)
    .option(...YES)
    .action((endpoint: string, options: Options) =>
      withMirror(({ pool }) => remove(pool, endpoint, options)),
    );
}

async function list(pool: Pool, { json }: Options): Promise<void> {
  const endpoints = await readOutgoingEndpoints(pool);
  if (json === true) return printJson(endpoints);
  if (endpoints.length === 0)
    return printNotice("No endpoint is configured yet; see OUTGOING_WEBHOOKS_FILE.");
  const head = ["endpoint", "sources", "waiting", "next attempt", "given up", "last delivered", "state"];
  printTable([head, ...endpoints.map(listEndpoint)]);
}

function listEndpoint(endpoint: OutgoingEndpoint): string[] {
  const { endpointId, sourceIds, pending, dead, newestDeliveredAt, nextAttemptAt, pausedAt } = endpoint;
  const ageOf = (seconds: number) => Date.now() / 1_000 - seconds;
  const delivered = newestDeliveredAt === null ? "never" : formatAge(ageOf(newestDeliveredAt));
  const isDue = nextAttemptAt !== null && ageOf(nextAttemptAt) >= 0;
  const next =
    nextAttemptAt === null || pausedAt !== null
      ? "–"
      : isDue
        ? "now"
        : `in ${describeDelay(-ageOf(nextAttemptAt))}`;
  const figures = [String(pending), next, String(dead), delivered];
  return [endpointId, sourceIds.join(","), ...figures, describeEndpoint(endpoint)];
}

async function retry(pool: Pool, endpoint: string, { yes, json }: Options): Promise<void> {
  const found = await requireEndpoint(pool, endpoint);
  const { dead, pending } = found;
  const question = `Send ${countOf(dead + pending, "message")} to ${endpoint}${sayWhen(found)}?`;
  if (dead + pending > 0 && !(await isAgreed({ yes }, question))) return;
  const action = { action: "outgoing", sourceId: null, target: `retry ${endpoint}` };
  const resend = async () => ({
    hastened: await sendNow(pool, endpoint, "pending"),
    revived: await sendNow(pool, endpoint, "dead"),
  });
  const sent = await audited(pool, action, resend, ({ revived, hastened }) => revived + hastened);
  if (json === true) return printJson({ endpoint, ...sent });
  const count = sent.revived + sent.hastened;
  printLine(
    `${countOf(count, "message")} ${wordFor(count, "is", "are")} sent to ${endpoint}${sayWhen(found)}.`,
  );
}

async function test(pool: Pool, endpoint: string, { json }: Options): Promise<void> {
  const found = await requireEndpoint(pool, endpoint);
  const action = { action: "outgoing", sourceId: null, target: `test ${endpoint}` };
  const planned = await audited(pool, action, () => planTest(pool, endpoint), Number);
  if (json === true) return printJson({ endpoint, planned });
  printLine(`A test is sent to ${endpoint}${sayWhen(found)}; /ops/outgoing shows how it ends.`);
}

async function remove(pool: Pool, endpoint: string, { yes, json }: Options): Promise<void> {
  const { pending, dead } = await requireEndpoint(pool, endpoint);
  const question = `Forget ${endpoint}, its place in the feed and its ${countOf(pending + dead, "message")}?`;
  if (!(await isAgreed({ yes }, question))) return;
  const action = { action: "outgoing", sourceId: null, target: `remove ${endpoint}` };
  const removed = await audited(pool, action, () => removeEndpoint(pool, endpoint), Number);
  if (!removed)
    throw new ConfigurationError(`A worker lists ${endpoint}, or did so within the last 30 seconds.`, {
      fix: "Take it out of OUTGOING_WEBHOOKS_FILE of every worker, restart them, and try again.",
    });
  if (json === true) return printJson({ endpoint, removed });
  printLine(`${endpoint} is forgotten.`);
}

async function replay(pool: Pool, endpoint: string, options: ReplayOptions): Promise<void> {
  const found = await requireEndpoint(pool, endpoint);
  const from = await readFeedPositionAt(pool, options.since);
  const question = `Send ${endpoint} its selection of all changes since then again?`;
  if (!(await isAgreed(options, question))) return;
  const action = { action: "outgoing", sourceId: null, target: `replay to ${endpoint}` };
  const replay = () => replayFrom(pool, { endpointId: endpoint, from });
  const changes = (await audited(pool, action, replay, Number)) ?? 0;
  if (options.json === true) return printJson({ endpoint, changes, replayed: changes > 0 });
  printLine(
    changes > 0
      ? `${countOf(changes, "change")} ${wordFor(changes, "is", "are")} checked again for ${endpoint}${sayWhen(found)}.`
      : "No change since then has been sent already.",
  );
}

/** Says when something is sent to an endpoint, as the end of a clause: nothing is while it is paused or not listed. */
function sayWhen({ pausedAt, unlistedSince }: OutgoingEndpoint): string {
  if (pausedAt !== null) return " once it is resumed on /ops/outgoing";
  return unlistedSince === null ? " now" : " once a running worker lists it";
}

async function requireEndpoint(pool: Pool, endpoint: string): Promise<OutgoingEndpoint> {
  const endpoints = await readOutgoingEndpoints(pool);
  const found = endpoints.find(({ endpointId }) => endpointId === endpoint);
  if (found !== undefined) return found;
  const fix = "`order-mirror outgoing list` shows the known endpoints.";
  throw new ConfigurationError(`There is no endpoint ${endpoint}.`, { fix });
}
