import { applyAbsence } from "../apply/absence.sql.ts";
import { isChange } from "../apply/applySubjects.ts";
import type { Decision } from "../apply/applySubjects.ts";
import { addSeconds, millisFromInstant } from "../domain/order/instant.ts";
import type { Instant } from "../domain/order/instant.ts";
import { horizonOf } from "../domain/order/observation.ts";
import { failureOf } from "../domain/source/errors.ts";
import type { SourceFailure } from "../domain/source/errors.ts";
import type { OrderRead } from "../domain/source/orderSource.ts";
import { describeMessage } from "../runtime/telemetry/errorFields.ts";
import type { PollDeps } from "./pollDeps.ts";
import type { Term } from "./leadership.ts";
import { completeRefetch, noteRefetchFailure, postponeRefetch, takeRefetches } from "./refetches.sql.ts";
import type { Finding, Refetch, RefetchPatience } from "./refetches.sql.ts";

/** Single reads only use the sustained policy (200 per 10 s), but a cycle has other work, too. */
const READS_MAX = 50;
const WAIT_MAX_MS = 6 * 3_600_000;
/** After this many failures in a row the provider is failing, not these orders. */
const UNAVAILABLE_MAX = 3;
/** About eight minutes at the default interval, from which the waits double. */
const FAILURES_MAX = 5;
const SELDOM_MS = 6 * 3_600_000;

export interface SingleReadCounts {
  readonly requests: number;
  readonly applied: number;
  /** Why this cycle read no more of them although they are due; undefined if nothing is wrong. */
  readonly failure: unknown;
}

/**
 * Reads requested orders one by one, until the next cycle is due. A request is fulfilled by a read whose horizon lies
 * beyond the version that it shows, because only then nothing can change within that version, and if no claim is left that
 * the read does not show. An earlier read is applied and repeated when it can tell more. A failed read is counted with its
 * request, which then waits longer each time; it is sent once, because it must not delay the others.
 */
export async function readOrders(
  deps: PollDeps,
  { term, signal, dueMs }: { term: Term; signal: AbortSignal; dueMs: number },
): Promise<SingleReadCounts> {
  const { sourceId } = deps.source;
  const refetches = await takeRefetches(deps.pool, { sourceId, limit: READS_MAX });
  let requests = 0;
  let applied = 0;
  let unavailable = 0;
  for (const refetch of refetches) {
    if (requests > 0 && deps.clock.monotonicMs() >= dueMs) break;
    term.assertLeading();
    requests += 1;
    const read = await readOrder(deps, { refetch, signal });
    if (read.kind === "read") applied += await applyAnswer(deps, { refetch, answer: read.answer });
    if (read.kind === "not_found") applied += await applyAbsent(deps, { refetch, ...read });
    unavailable = read.kind === "failed" && isUnavailable(read.failure) ? unavailable + 1 : 0;
    if (read.kind !== "failed") continue;
    const { failure, error } = read;
    // A rate-limit refusal says nothing about the order.
    if (failure !== "rate_limited") await noteFailure(deps, { refetch, error });
    const concernsAll = failure === "rate_limited" || failure === "key_refused";
    if (concernsAll || unavailable >= UNAVAILABLE_MAX) return { requests, applied, failure: error };
  }
  return { requests, applied, failure: undefined };
}

type SingleRead =
  | { readonly kind: "read"; readonly answer: OrderRead }
  | { readonly kind: "not_found"; readonly requestedAt: Instant }
  | { readonly kind: "failed"; readonly error: unknown; readonly failure: SourceFailure | undefined };

async function readOrder(
  { client }: PollDeps,
  { refetch, signal }: { refetch: Refetch; signal: AbortSignal },
): Promise<SingleRead> {
  const requestedAt = client.providerClock.providerNow();
  try {
    const how = { priority: "refetch", attemptsMax: 1, signal } as const;
    return { kind: "read", answer: await client.getOrder(refetch.reference, how) };
  } catch (error) {
    signal.throwIfAborted();
    const failure = failureOf(error);
    return failure === "not_found" ? { kind: failure, requestedAt } : { kind: "failed", error, failure };
  }
}

function isUnavailable(failure: SourceFailure | undefined): boolean {
  return failure === "timeout" || failure === "unavailable";
}

async function noteFailure(
  { source: { sourceId }, pool, logger, intervalSeconds }: PollDeps,
  { refetch, error }: { refetch: Refetch; error: unknown },
): Promise<void> {
  const patience: RefetchPatience = {
    firstWaitMs: intervalSeconds * 1_000,
    failuresMax: FAILURES_MAX,
    seldomMs: SELDOM_MS,
  };
  const failure = { sourceId, refetch, error: describeMessage(error), patience };
  if ((await noteRefetchFailure(pool, failure)) !== FAILURES_MAX) return;
  const { reference } = refetch;
  logger.warn({ reference, err: error }, "an order cannot be read singly; it is in quarantine");
}

async function applyAnswer(
  deps: PollDeps,
  { refetch, answer }: { refetch: Refetch; answer: OrderRead },
): Promise<number> {
  const { marginSeconds, logger } = deps;
  const { snapshot, requestedAt } = answer;
  const { version } = snapshot;
  const decisions = await deps.apply.applyReads({
    sourceId: deps.source.sourceId,
    via: "refetch",
    snapshots: [snapshot],
    time: { requestedAt, marginSeconds },
  });
  const stored = decisions[0]?.storedVersion ?? version;
  const decisive = stored > version ? stored : version;
  const waitMs = untilDecided(deps, { version: decisive, requestedAt });
  // A claim that stands may be an exception to what is proved, so its request stays.
  const isFarAhead = stored <= version && waitMs > WAIT_MAX_MS;
  if (isFarAhead) {
    const { reference, reason } = refetch;
    logger.warn({ reference, reason }, "the order is dated more than six hours ahead; no longer read singly");
  }
  await endAttempt(deps, {
    refetch,
    shown: version,
    found: findingOf(decisions),
    waitMs: waitMs <= 0 || isFarAhead ? undefined : Math.min(waitMs, WAIT_MAX_MS),
  });
  return decisions.filter(isChange).length;
}

/** What a verification learns from a single read: news since its lists were read is none. */
function findingOf(decisions: readonly Decision[]): Finding {
  const [decision] = decisions.filter(isChange);
  if (decision?.verdict === "corrected") return "contradicted";
  return decision?.conflict === true ? "differing" : null;
}

/**
 * The one place that handles a "not found" answer to a single read (404 or 410, whatever the body): the order is gone,
 * unless the mirror has a claim that is too recent for such a read.
 */
async function applyAbsent(
  deps: PollDeps,
  { refetch, requestedAt }: { refetch: Refetch; requestedAt: Instant },
): Promise<number> {
  const { reference } = refetch;
  const { sourceId } = deps.source;
  const horizon = horizonOf({ requestedAt, marginSeconds: deps.marginSeconds });
  const absence = { sourceId, reference, via: "refetch", requestedAt, horizon } as const;
  const { outcome, version } = await applyAbsence(deps.pool, absence);
  const isGone = outcome === "gone";
  if (isGone) {
    deps.logger.warn({ reference }, "the provider has no order with this reference; it is no longer served");
  }
  const claimed = outcome === "claim_stands" ? version : null;
  const waitMs =
    claimed === null
      ? undefined
      : Math.min(untilDecided(deps, { version: claimed, requestedAt }), WAIT_MAX_MS);
  await endAttempt(deps, { refetch, shown: undefined, found: isGone ? "extra" : null, waitMs });
  return isGone ? 1 : 0;
}

/** Milliseconds until a read's horizon lies beyond a version: one second more, because the clock is a lower bound. */
function untilDecided(
  { marginSeconds }: PollDeps,
  { version, requestedAt }: { version: Instant; requestedAt: Instant },
): number {
  if (requestedAt > addSeconds(version, marginSeconds)) return 0;
  return millisFromInstant(version - requestedAt) + (marginSeconds + 1) * 1_000;
}

/** `waitMs`: until the next read can tell more, or the interval if that is longer; undefined ends the request. */
async function endAttempt(
  { source: { sourceId }, pool, intervalSeconds }: PollDeps,
  attempt: { refetch: Refetch; shown: Instant | undefined; found: Finding; waitMs: number | undefined },
): Promise<void> {
  const { refetch, shown, found, waitMs } = attempt;
  if (waitMs === undefined) return completeRefetch(pool, { sourceId, refetch, shown, found });
  await postponeRefetch(pool, { sourceId, refetch, waitMs: Math.max(waitMs, intervalSeconds * 1_000) });
}
