import type { Command } from "commander";
import type { Instant } from "../../domain/order/instant.ts";
import { ConfigurationError } from "../../domain/errors.ts";
import type { Pool } from "../../database/database.ts";
import { readFeedPositionAt, replayFrom, reviveDead } from "../../outgoing/outgoingPlan.sql.ts";
import {
  describeEndpoint,
  readOutgoingEndpoints,
  type OutgoingEndpoint,
} from "../../health/conditions/endpoints.sql.ts";
import { audited, isAgreed, parseWhen, withMirror } from "../input/session.ts";
import { formatAge, printJson, printLine, printNotice, printTable } from "../output/terminal.ts";

interface Options {
  readonly json?: boolean;
  readonly yes?: boolean;
}

interface ReplayOptions extends Options {
  readonly since: Instant;
}

/** `outgoing`: shows the business's own endpoints, and sends messages again; /ops/outgoing shows each. */
export function register(program: Command): void {
  const outgoing = program.command("outgoing").description("inspect outgoing webhooks, and send them again");
  const add = (name: string, description: string) =>
    outgoing.command(name).description(description).option("--json", "print JSON");
  const NAME = "name of the endpoint";
  const YES = ["--yes", "do not ask for confirmation"] as const;

  add("list", "list endpoints: messages waiting, messages given up, last delivery").action(
    (options: Options) => withMirror(({ pool }) => list(pool, options)),
  );
  add("retry", "send all messages again that were given up")
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
  const delivered = newestDeliveredAt === null ? "never" : formatAge(Date.now() / 1_000 - newestDeliveredAt);
  const counts = [String(pending), String(dead), delivered];
  return [endpointId, sourceIds.join(","), ...counts, describeEndpoint(endpoint)];
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
  await requireEndpoint(pool, endpoint);
  const from = await readFeedPositionAt(pool, options.since);
  const question = `Send ${endpoint} its selection of all changes since then again?`;
  if (!(await isAgreed(options, question))) return;
  const action = { action: "outgoing", sourceId: null, target: `replay to ${endpoint}` };
  const replay = () => replayFrom(pool, { endpointId: endpoint, from });
  const changes = (await audited(pool, action, replay, Number)) ?? 0;
  if (options.json === true) return printJson({ endpoint, changes, replayed: changes > 0 });
  printLine(
    changes > 0
      ? `${changes} changes are being checked again for ${endpoint}.`
      : "No change since then has been sent already.",
  );
}

async function requireEndpoint(pool: Pool, endpoint: string): Promise<OutgoingEndpoint> {
  const endpoints = await readOutgoingEndpoints(pool);
  const found = endpoints.find(({ endpointId }) => endpointId === endpoint);
  if (found !== undefined) return found;
  const fix = "`order-mirror outgoing list` shows the endpoints of OUTGOING_WEBHOOKS_FILE.";
  throw new ConfigurationError(`There is no endpoint ${endpoint}.`, { fix });
}
