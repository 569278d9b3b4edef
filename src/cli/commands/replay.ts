import type { Command } from "commander";
import { QUARANTINE_REASONS } from "../../apply/subject.ts";
import {
  countQuarantined,
  describeFilter,
  replayAll,
  type QuarantineCount,
  type QuarantineFilter,
} from "../../apply/quarantine.sql.ts";
import { readMirrorId } from "../../changes/changeFeed.sql.ts";
import { ConfigurationError } from "../../domain/errors.ts";
import { describeUnknownName } from "../../domain/unknownName.ts";
import { makeApplyQueue } from "../../queue/applyQueue.ts";
import { makeLogger } from "../../process/telemetry/logger.ts";
import { audited, chooseSource, isAgreed, withMirror, type Mirror } from "../input/session.ts";
import { countOf, printJson, printLine, printNotice } from "../output/terminal.ts";

interface Options {
  readonly reason?: string;
  readonly source?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}

const HELP = `
Run it with --dry-run first, which shows exact counts; then with --yes instead.
Workers decide on a replayed event again; if it still fails, it returns to quarantine. Nothing is lost.`;

export function register(program: Command): void {
  program
    .command("replay")
    .description("process quarantined input again")
    .option("--reason <word>", "only entries quarantined for this reason")
    .option("--source <id>", "only entries of this source")
    .option("--dry-run", "only show what would be done")
    .option("--yes", "do not ask for confirmation")
    .option("--json", "print JSON")
    .addHelpText("after", HELP)
    .action((options: Options) => withMirror((mirror) => replay(mirror, options)));
}

async function replay(mirror: Mirror, options: Options): Promise<void> {
  const { pool } = mirror;
  const { source, reason = null } = options;
  const sourceId = source === undefined ? null : await chooseSource(pool, source);
  const filter: QuarantineFilter = { quarantineId: null, sourceId, reason };
  const count = await countQuarantined(pool, filter);
  // A reason that we do not know is right if entries have it.
  if (
    reason !== null &&
    count.throughId === null &&
    !(QUARANTINE_REASONS as readonly string[]).includes(reason)
  )
    throw new ConfigurationError(
      `No entry has it: ${describeUnknownName("reason", reason, QUARANTINE_REASONS)}`,
    );
  const say = options.json === true ? printNotice : printLine;
  for (const line of describeCount(count)) say(line);
  const { throughId } = count;
  if (options.dryRun === true || throughId === null || count.events + count.reads === 0) {
    if (options.json === true) printJson({ found: count, replayed: null });
    return;
  }
  if (!(await isAgreed(options, "Replay them?"))) return;
  const action = { action: "retry", sourceId, target: describeFilter(filter, throughId) };
  const replayed = await audited(
    pool,
    action,
    () => retry(mirror, { filter, throughId }),
    ({ events, reads }) => events + reads,
  );
  if (options.json === true) printJson({ found: count, replayed });
  else
    printLine(
      `Replayed ${countOf(replayed.events, "event")}; ${countOf(replayed.reads, "order")} will be read again.`,
    );
  printNotice("Next: order-mirror tail shows the decisions; order-mirror status counts what is left.");
}

async function retry(
  { config, pool, databaseUrl }: Mirror,
  chosen: { filter: QuarantineFilter; throughId: string },
) {
  const logger = makeLogger({ level: "warn", format: config.logFormat, service: "replay" });
  const mirrorId = await readMirrorId(pool);
  const queue = await makeApplyQueue({ databaseUrl, redisUrls: config.redisUrls, mirrorId, logger });
  try {
    return await replayAll(pool, chosen, queue.notify);
  } finally {
    await queue.close();
  }
}

function describeCount({ events, reads, unnamed, reasons }: QuarantineCount): string[] {
  if (events + reads + unnamed === 0) return ["No quarantined entry matches."];
  const parts = reasons.map(({ reason, count }) => `${count} ${reason}`).join(", ");
  return [
    `In quarantine: ${events + reads + unnamed} (${parts}).`,
    `  ${countOf(events, "event")} would be decided on again.`,
    ...(reads > 0 ? [`  ${reads} came from reads, whose orders would be read again.`] : []),
    ...(unnamed > 0
      ? [
          `  ${unnamed} came from reads and name no order: they stay; the next walk over them reads them again.`,
        ]
      : []),
  ];
}
