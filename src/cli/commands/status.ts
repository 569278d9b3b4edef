import type { Command } from "commander";
import { formatInstant, millisFromInstant } from "../../domain/instant.ts";
import type { Instant } from "../../domain/instant.ts";
import { readStatus } from "../../mirror/status.ts";
import type { SourceStatus } from "../../mirror/status.ts";
import { withMirror } from "../session.ts";
import { alignColumns, formatSpan, makePaint, printJson, printLine, printNotice } from "../terminal.ts";
import type { Paint } from "../terminal.ts";

export function addStatusCommand(program: Command): void {
  program
    .command("status")
    .description("show each source: up to when it is complete, what waits, what is stuck")
    .option("--json", "print JSON")
    .action(async (options: { json?: boolean }) => {
      const sources = await withMirror(({ pool }) => readStatus(pool));
      if (options.json === true) {
        printJson(sources.map(toJson));
        return;
      }
      if (sources.length === 0) printNotice("No source was ever configured in this database.");
      const paint = makePaint(process.stdout, process.env["NO_COLOR"]);
      for (const source of sources) printSource(source, paint);
    });
}

function printSource(source: SourceStatus, paint: Paint): void {
  printLine(paint("bold", `${source.sourceId} (${source.mode}) · ${source.orders} orders`));
  const rows = [
    ["  complete up to", describeMoment(source.safeThrough, source.now)],
    ["  polled up to", describeMoment(source.polledThrough, source.now)],
    ["  last poll ended", describeMoment(source.lastCycleEndedAt, source.now)],
    ["  last event", describeMoment(source.lastEventReceivedAt, source.now)],
    ["  events waiting", describePending(source)],
    ["  in quarantine", String(source.quarantined)],
    ["  to be read again", String(source.refetches)],
    ...(source.lastError === null ? [] : [["  trouble", paint("red", source.lastError)]]),
  ];
  for (const line of alignColumns(rows)) printLine(line);
}

function describeMoment(moment: Instant | null, now: Instant): string {
  if (moment === null) return "never";
  const agoMs = millisFromInstant(now - moment);
  return `${formatInstant(moment, 0)}  (${agoMs < 0 ? "just now" : `${formatSpan(agoMs)} ago`})`;
}

function describePending({ pending, oldestPendingSeconds }: SourceStatus): string {
  if (pending === 0 || oldestPendingSeconds === null) return "0";
  return `${pending}, the oldest for ${formatSpan(oldestPendingSeconds * 1_000)}`;
}

function toJson(source: SourceStatus) {
  const moment = (instant: Instant | null) => (instant === null ? null : formatInstant(instant));
  return {
    ...source,
    safeThrough: moment(source.safeThrough),
    polledThrough: moment(source.polledThrough),
    lastCycleEndedAt: moment(source.lastCycleEndedAt),
    lastEventReceivedAt: moment(source.lastEventReceivedAt),
    now: formatInstant(source.now),
  };
}
