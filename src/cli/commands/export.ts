import type { Writable } from "node:stream";
import { open, rename, rm } from "node:fs/promises";
import { finished } from "node:stream/promises";
import { Option, type Command } from "commander";
import { ConfigurationError } from "../../domain/errors.ts";
import { withPool } from "../../database/database.ts";
import { selectFreshness } from "../../orders/orderReads.sql.ts";
import { EXPORT_FORMATS, exportOrders, type ExportFormat } from "../../orders/exportOrders.sql.ts";
import { formatInstant, type Instant } from "../../domain/order/instant.ts";
import { systemClock } from "../../process/clock.ts";
import { isFullDisk } from "../../process/dataFolder.ts";
import {
  audited,
  chooseSource,
  parseWhen,
  untilInterrupted,
  withMirror,
  type Mirror,
} from "../input/session.ts";
import { countOf, formatSpan, openOutput, printJson, printNotice } from "../output/terminal.ts";

interface Options {
  readonly source?: string;
  readonly since?: Instant;
  readonly until?: Instant;
  readonly format: ExportFormat;
  readonly output?: string;
  readonly json?: boolean;
}

/** A slow reader of the output leaves the transaction idle. */
const PATIENCE_MS = 600_000;

export function register(program: Command): void {
  program
    .command("export")
    .description("write orders as CSV or NDJSON, to stdout or into a file")
    .option("--source <id>", "the source; required if there are several")
    .option("--since <when>", "updatedAt at or after this, such as 7d or 2026-11-21", parseWhen)
    .option("--until <when>", "updatedAt before this", parseWhen)
    .addOption(new Option("--format <format>", "output format").choices(EXPORT_FORMATS).default("csv"))
    .option("--output <file>", "write to this file, which appears only when complete; default: stdout")
    .option("--json", "print a JSON summary of the export; requires --output")
    .action((options: Options) => {
      assertPossible(options);
      return withMirror((mirror) => runExport(mirror, options));
    });
}

function assertPossible({ since, until, json, output }: Options): void {
  if (json === true && output === undefined)
    throw new ConfigurationError("--json prints a summary, but stdout is used for the orders.", {
      fix: "Add --output FILE.",
    });
  if (since !== undefined && until !== undefined && since >= until)
    throw new ConfigurationError("The period ends before it begins.", {
      fix: "Give a --since that is earlier than --until.",
    });
}

async function runExport(mirror: Mirror, options: Options): Promise<void> {
  const { pool, databaseUrl } = mirror;
  const { output, json, format, since, until } = options;
  const sourceId = await chooseSource(pool, options.source);
  const filter = { sourceId, updatedSince: since, updatedUntil: until };
  const startedMs = systemClock.monotonicMs();
  // Before the orders are read: they have every change before it.
  const freshness = await selectFreshness(pool, sourceId);
  const safeThrough = freshness === undefined ? null : formatInstant(freshness.safeThrough, 0);
  const poolOptions = { url: databaseUrl, purpose: "export", max: 1, statementTimeoutMs: PATIENCE_MS };
  await withPool(poolOptions, (exportPool) =>
    untilInterrupted(mirror, async (signal) => {
      const action = { action: "export", sourceId, target: describeExport(options) };
      const write = (out: Writable) =>
        audited(pool, action, () => exportOrders({ pool: exportPool, format, filter, out, signal }), Number);
      const orders = await (output === undefined ? write(openOutput()) : writeFile(output, write)).catch(
        (error: unknown) => {
          // Ctrl-C, or a reader that closed early: not a failure, nothing to report.
          if (!signal.aborted) throw error;
        },
      );
      if (orders === undefined) return;
      const elapsedMs = Math.round(systemClock.monotonicMs() - startedMs);
      if (json === true) printJson({ orders, file: output, format, elapsedMs, safeThrough });
      else
        printNotice(
          `${countOf(orders, "order")} written${output === undefined ? "" : ` to ${output}`} in ${formatSpan(elapsedMs)}; ${safeThrough === null ? "not verified yet" : `complete up to ${safeThrough}`}.`,
        );
    }),
  );
}

/** The bounds in use, without their values. */
function describeExport({ format, since, until }: Options): string {
  const used = [...(since === undefined ? [] : ["since"]), ...(until === undefined ? [] : ["until"])];
  return `${format}, ${used.length === 0 ? "all orders" : used.join(", ")}`;
}

/** Writes to a temporary file and renames it at the end, so that an incomplete file is never mistaken for the whole. */
async function writeFile<Result>(file: string, write: (out: Writable) => Promise<Result>): Promise<Result> {
  const part = `${file}.part`;
  try {
    const handle = await open(part, "w").catch((cause: NodeJS.ErrnoException) => {
      if (isFullDisk(cause)) throw cause;
      throw new ConfigurationError(`${file} cannot be written (${String(cause.code)}).`, {
        cause,
        fix: "Give --output a file in a folder that exists, where this account may write.",
      });
    });
    const out = handle.createWriteStream();
    // The writer and finished() report errors; without a listener, an error event would end the process.
    out.on("error", () => undefined);
    const result = await write(out).finally(() => out.end());
    await finished(out);
    await rename(part, file);
    return result;
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
}
