import type { IncomingMessage } from "node:http";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import { makeLogSampler } from "../../runtime/telemetry/logSampler.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";
import type { ReceiveOutcome } from "./answers.ts";

const LOG_INTERVAL_MS = 10_000;
const NAMES_MAX = 10;
/** Headers in which a signature may be hidden from our scheme: a hint at a wrong configuration. */
const TELLING_NAME = /sig|hmac|digest|timestamp/i;

interface Refusal {
  readonly outcome: ReceiveOutcome;
  readonly source: string;
  readonly reason?: string;
  readonly error?: unknown;
}

/**
 * Logs refused requests, at most one per outcome and source in 10 s: a flood must cost us nothing. Only names of
 * headers appear, never values.
 */
export function makeRefusalLog({ clock, logger }: { clock: Clock; logger: Logger }) {
  const sample = makeLogSampler({ clock, intervalMs: LOG_INTERVAL_MS });

  return (req: IncomingMessage, { outcome, source, reason, error }: Refusal): void => {
    if (outcome === "received" || outcome === "duplicate" || outcome === "aborted") return;
    // An unknown source must not be a key: a scanner could invent any number.
    const knownSource = outcome === "not_found" ? undefined : source;
    const suppressed = sample(`${outcome} ${knownSource ?? ""}`);
    if (suppressed === undefined) return;
    const fields = {
      outcome,
      suppressed,
      ...(knownSource === undefined ? {} : { source: knownSource }),
      ...(reason === undefined ? {} : { reason }),
      ...(outcome === "unauthorized" ? { header_names: listTellingNames(req) } : {}),
      ...(error === undefined ? {} : { err: error }),
    };
    if (isOurFault(outcome)) logger.error(fields, "a webhook request could not be answered normally");
    else logger.warn(fields, "a webhook request was refused");
  };
}

function isOurFault(outcome: ReceiveOutcome): boolean {
  return (
    outcome === "body_already_read" ||
    outcome === "failed" ||
    outcome === "overloaded" ||
    outcome === "unavailable"
  );
}

function listTellingNames(req: IncomingMessage): string[] {
  return Object.keys(req.headers)
    .filter((name) => TELLING_NAME.test(name))
    .slice(0, NAMES_MAX);
}
