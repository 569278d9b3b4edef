import path from "node:path";
import type { Writable } from "node:stream";
import { open, rename, rm } from "node:fs/promises";
import { finished } from "node:stream/promises";
import { Option } from "commander";
import type { Command } from "commander";
import { ConfigurationError, OrderMirrorError, UnavailableError } from "../../../domain/errors.ts";
import { withPool } from "../../../database/database.ts";
import type { Pool } from "../../../database/database.ts";
import { countExportedOrders } from "../../../orders/export/orderExport.sql.ts";
import type { OrderFilter } from "../../../orders/orderFilter.sql.ts";
import { selectFreshness } from "../../../orders/orderReads.sql.ts";
import { resolveFilter, parseOrderFilter } from "../../../orders/orderQuery.ts";
import { RefusedRequestError } from "../../../wire/refusal.ts";
import { EXPORT_FORMATS, exportOrders } from "../../../orders/export/exportOrders.ts";
import type { ExportFormat } from "../../../orders/export/exportOrders.ts";
import { formatInstant } from "../../../domain/order/instant.ts";
import { resolveSince } from "../../../runtime/config/duration.ts";
import { systemClock } from "../../../runtime/lifecycle/clock.ts";
import { audited, chooseSource, runUntilInterrupted, withMirror } from "../../input/session.ts";
import { formatSpan, makeProgressLine, openOutput, printJson, printNotice } from "../../output/terminal.ts";
import { describeFullDisk, isFullDisk } from "../../../runtime/dataFolder.ts";

/**
 * Options that are parameters of GET /v1/orders, with their names there. `<when>` is an instant, or a duration back
 * from now; see resolveSince.
 */
const FILTERS = {
  updatedSince: ["--since, --updated-since <when>", "updatedAt at or after this, such as 7d or 2026-11-21"],
  updatedUntil: ["--until, --updated-until <when>", "updatedAt before this; default with --since: now"],
  pickupFrom: ["--pickup-from <when>", "planned pickup at or after this"],
  pickupUntil: ["--pickup-until <when>", "planned pickup before this"],
  deliveryFrom: ["--delivery-from <when>", "planned delivery at or after this"],
  deliveryUntil: ["--delivery-until <when>", "planned delivery before this"],
  status: ["--status <status>", "with this status"],
  branch: ["--branch <name>", "of this branch: its reference or id"],
  fleet: ["--fleet <name>", "of this fleet"],
} as const;

const FILTER_NAMES = Object.keys(FILTERS) as (keyof typeof FILTERS)[];

type Options = Partial<Record<keyof typeof FILTERS, string>> & {
  readonly source?: string;
  readonly format: ExportFormat;
  readonly output?: string;
  readonly json?: boolean;
};

/** A slow reader of the output leaves the transaction idle. */
const PATIENCE_MS = 600_000;
const PROGRESS_EVERY_MS = 200;

export function register(program: Command): void {
  const command = program
    .command("export")
    .description("write orders as CSV or NDJSON, to stdout or into a file")
    .option("--source <id>", "the source; required if there are several");
  for (const [flags, meaning] of Object.values(FILTERS)) command.option(flags, meaning);
  command
    .addOption(new Option("--format <format>", "output format").choices(EXPORT_FORMATS).default("csv"))
    .option("--output <file>", "write to this file, which appears only when complete; default: stdout")
    .option("--json", "print a JSON summary of the export; requires --output")
    .action((options: Options) =>
      withMirror(({ pool, databaseUrl }) => runExport({ pool, databaseUrl, options })),
    );
}

async function runExport(asked: { pool: Pool; databaseUrl: string; options: Options }): Promise<void> {
  const { pool, databaseUrl, options } = asked;
  const { output, json } = options;
  if (json === true && output === undefined) {
    throw new ConfigurationError("--json prints a summary, but stdout is used for the orders.", {
      fix: "Add --output FILE.",
    });
  }
  const filter = await readFilter(pool, options);
  const startedMs = systemClock.monotonicMs();
  // Before the orders are read: they have every change before it.
  const freshness = await selectFreshness(pool, filter.sourceId);
  const safeThrough = freshness === undefined ? null : formatInstant(freshness.safeThrough, 0);
  const poolOptions = { url: databaseUrl, purpose: "export", max: 1, statementTimeoutMs: PATIENCE_MS };
  await withPool(poolOptions, (exportPool) =>
    runUntilInterrupted(async (signal) => {
      const action = { action: "export", sourceId: filter.sourceId, target: describeExport(options) };
      const write = (out: Writable) =>
        audited(pool, action, () => writeOrders({ pool, exportPool, filter, out, options, signal }), Number);
      const orders = await (output === undefined ? write(openOutput()) : writeFile(output, write)).catch(
        (error: unknown) => {
          // Ctrl-C, or a reader that closed early: not a failure, nothing to report.
          if (!signal.aborted) throw error;
        },
      );
      if (orders === undefined) return;
      const elapsedMs = Math.round(systemClock.monotonicMs() - startedMs);
      if (json === true) printJson({ orders, file: output, format: options.format, elapsedMs, safeThrough });
      else
        printNotice(
          `${orders} orders written${output === undefined ? "" : ` to ${output}`} in ${formatSpan(elapsedMs)}; ${safeThrough === null ? "not verified yet" : `complete up to ${safeThrough}`}.`,
        );
    }),
  );
}

/** Names of the filters in use, without their values: a business's own id could contain a person's name. */
function describeExport(options: Options): string {
  const used = Object.keys(FILTERS).filter((name) => options[name as keyof typeof FILTERS] !== undefined);
  return `${options.format}, ${used.length === 0 ? "all orders" : used.join(", ")}`;
}

async function readFilter(pool: Pool, options: Options): Promise<OrderFilter> {
  const parameters = new URLSearchParams();
  const now = systemClock.now();
  for (const name of FILTER_NAMES) {
    const value = options[name];
    if (value === undefined) continue;
    parameters.set(name, isTime(name) ? formatInstant(resolveSince(value, now)) : value);
  }
  if (options.updatedSince !== undefined && options.updatedUntil === undefined)
    parameters.set("updatedUntil" satisfies keyof typeof FILTERS, formatInstant(now));
  const sourceId = await chooseSource(pool, options.source);
  try {
    const asked = parseOrderFilter(parameters);
    const { updatedSince, updatedUntil } = asked;
    if (updatedSince !== undefined && updatedUntil !== undefined && updatedSince >= updatedUntil)
      throw new ConfigurationError("The period ends before it begins.", {
        fix: "Give a --since that is earlier than --until.",
      });
    return await resolveFilter(pool, { sourceId, asked });
  } catch (error) {
    if (!(error instanceof RefusedRequestError)) throw error;
    throw new ConfigurationError(nameOptions(error.message), { fix: "See order-mirror export --help." });
  }
}

function isTime(name: keyof typeof FILTERS): boolean {
  return FILTERS[name][0].endsWith("<when>");
}

/** Replaces names of address parameters in a sentence with names of options. */
function nameOptions(sentence: string): string {
  return FILTER_NAMES.reduce((text, name) => {
    const flag = FILTERS[name][0].match(/--[\w-]+/g)?.at(-1) ?? name;
    // A name that is also an English word is replaced only at the beginning of a sentence.
    const place = /[A-Z]/.test(name) ? `\\b${name}\\b` : `^${name}\\b`;
    return text.replaceAll(new RegExp(place, "g"), flag);
  }, sentence);
}

async function writeOrders(work: {
  pool: Pool;
  exportPool: Pool;
  filter: OrderFilter;
  out: Writable;
  options: Options;
  signal: AbortSignal;
}): Promise<number> {
  const { pool, exportPool, filter, out, options, signal } = work;
  const { format } = options;
  const total = await countExportedOrders(pool, filter);
  const startedMs = systemClock.monotonicMs();
  const line = makeProgressLine(process.stderr, systemClock.monotonicMs);
  let shownMs = startedMs;
  const onWritten = (count: number) => {
    const nowMs = systemClock.monotonicMs();
    if (nowMs - shownMs < PROGRESS_EVERY_MS) return;
    shownMs = nowMs;
    const elapsedMs = nowMs - startedMs;
    line.show({ share: Math.min(1, count / total), elapsedMs, count, unit: "orders" });
  };
  try {
    return await exportOrders({ pool: exportPool, format, filter, out, signal, onWritten });
  } finally {
    line.end();
  }
}

class ExportFailedError extends OrderMirrorError {
  override readonly name = "ExportFailedError";
  override readonly retry = "never";
}

/** Writes to a temporary file and renames it at the end, so that an incomplete file is never mistaken for the whole. */
export async function writeFile<Result>(
  file: string,
  write: (out: Writable) => Promise<Result>,
): Promise<Result> {
  const part = `${file}.part`;
  try {
    const handle = await open(part, "w");
    const out = handle.createWriteStream();
    // The writer and finished() report errors; without a listener, an error event would end the process.
    out.on("error", () => undefined);
    const result = await write(out).finally(() => out.end());
    await finished(out);
    await rename(part, file);
    return result;
  } catch (error) {
    await rm(part, { force: true });
    if (isFullDisk(error)) {
      const folder = path.dirname(path.resolve(file));
      throw new UnavailableError(describeFullDisk(file, folder), {
        cause: error,
        fix: "Free space there or name a file on another disk, then run the command again.",
      });
    }
    const { code, syscall } = error as NodeJS.ErrnoException;
    if (syscall === undefined || code === undefined || error instanceof OrderMirrorError) throw error;
    throw new ExportFailedError(`${file} cannot be written (${code}).`, { cause: error });
  }
}
