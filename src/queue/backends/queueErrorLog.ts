import type { Clock } from "../../runtime/lifecycle/clock.ts";
import { describeError } from "../../runtime/telemetry/errorFields.ts";
import { makeLogSampler } from "../../runtime/telemetry/logSampler.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";
import type { OnQueueError } from "./backend.ts";

const LOG_INTERVAL_MS = 30_000;

/** While a server is down every connection attempt fails: one line per kind of error is enough. */
export function makeQueueErrorLog({ logger, clock }: { logger: Logger; clock: Clock }): OnQueueError {
  const sample = makeLogSampler({ clock, intervalMs: LOG_INTERVAL_MS });
  return (error) => {
    const { type, code = "" } = describeError(error);
    const suppressed = sample(`${type} ${code}`);
    if (suppressed !== undefined) logger.warn({ err: error, suppressed }, "the queue had an error");
  };
}
