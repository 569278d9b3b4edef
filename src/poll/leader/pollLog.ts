import { OrderMirrorError } from "../../domain/errors.ts";
import { classifyDatabaseError } from "../../database/databaseErrors.ts";
import { failureOf } from "../../domain/source/errors.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";
import type { CycleCounts } from "../cycle/runSweeps.ts";

export interface PollLog {
  /** `clockErrorSeconds`: see disagreementSeconds of the source's clock. */
  succeeded(counts: CycleCounts, clockErrorSeconds: number | null): void;
  failed(error: unknown, waitMs: number): void;
  /** Whether a person has paused the source. */
  pausedIs(paused: boolean): void;
}

/** Logs each problem once, and once that polling works again: a line for every attempt would bury the others. */
export function makePollLog(logger: Logger): PollLog {
  const polling = makeChange();
  const spare = makeChange();
  const clocks = makeChange();
  const pause = makeChange();

  function sayTrouble(error: unknown, waitMs: number): void {
    if (failureOf(error) === "key_refused") {
      logger.error(
        { wait_ms: waitMs },
        "the provider refuses the API key; nothing is polled until it is replaced",
      );
    } else if (error instanceof OrderMirrorError || classifyDatabaseError(error) === "transient") {
      logger.warn({ wait_ms: waitMs, err: error }, "polling failed; it resumes from the same place");
    } else {
      logger.error({ wait_ms: waitMs, err: error }, "polling failed unexpectedly");
    }
  }

  return {
    succeeded(counts, clockErrorSeconds) {
      const { requests, windows, orders, applied, unreadable, unproved, refetches, spareError } = counts;
      logger.debug({ requests, windows, orders, applied, unreadable, unproved, refetches }, "polled");
      if (polling.is("") === "changed") logger.info("polling works again");
      if (spare.is(nameOf(spareError)) === "changed" && spareError !== undefined) {
        logger.warn({ err: spareError }, "reading outside the fast sweep failed; it will be retried later");
      }
      if (clocks.is(clockErrorSeconds === null ? "" : "wrong") === "same") return;
      if (clockErrorSeconds === null) return logger.info("the provider's clock is right again");
      logger.warn(
        { clock_error_seconds: Math.round(clockErrorSeconds) },
        "the provider's clock differs from the database's; nothing is proved until they agree",
      );
    },
    pausedIs(paused) {
      if (pause.is(paused ? "paused" : "") === "same") return;
      logger.info(paused ? "polling is paused" : "polling is resumed");
    },
    failed(error, waitMs) {
      if (polling.is(nameOf(error)) === "changed") sayTrouble(error, waitMs);
    },
  };
}

function nameOf(error: unknown): string {
  if (error === undefined) return "";
  if (!(error instanceof Error)) return typeof error;
  const failure = failureOf(error);
  if (failure !== undefined) return failure;
  const { code } = error as { code?: unknown };
  return typeof code === "string" ? `${error.name} ${code}` : error.name;
}

/** Remembers a text; `is` tells whether it differs from the last one. Initially the text is empty. */
function makeChange(): { is(text: string): "changed" | "same" } {
  let last = "";
  return {
    is(text) {
      const change = text === last ? "same" : "changed";
      last = text;
      return change;
    },
  };
}
