import { applyAbsence } from "../apply/absence.sql.ts";
import { isChange } from "../apply/applySubjects.ts";
import { addSeconds, millisFromInstant, type Instant } from "../domain/order/instant.ts";
import { horizonOf } from "../domain/order/observation.ts";
import { failureOf } from "../domain/source/errors.ts";
import type { OrderRead } from "../domain/source/orderSource.ts";
import { describeMessage } from "../process/telemetry/errorFields.ts";
import type { PollDeps } from "./pollDeps.ts";
import type { Term } from "./leadership.ts";
import {
  completeRefetch,
  noteRefetchFailure,
  postponeRefetch,
  takeRefetches,
  type Refetch,
} from "./refetches.sql.ts";

/** Single reads only use the sustained policy (200 per 10 s), but a cycle has other work, too. */
const READS_MAX = 50;
const WAIT_MAX_MS = 6 * 3_600_000;
/** After this many failures in a row the provider is failing, not these orders. */
const UNAVAILABLE_MAX = 3;

/**
 * Reads requested orders one by one, until the next cycle is due. A request is fulfilled by a read whose horizon lies
 * beyond the version that it shows, because only then nothing can change within that version, and if no claim is left
 * that the read does not show; or by two reads, a margin apart, that find no such order. An earlier read is applied and
 * repeated when it can tell more. A failed read is counted with its request, which then waits longer each time; it is
 * sent once, because it must not delay the others. Resolves with why no more were read although they are due; undefined
 * if nothing is wrong.
 */
export async function readOrders(
  deps: PollDeps,
  context: {
    term: Term;
    signal: AbortSignal;
    dueMs: number;
    counts: { refetches: number; applied: number };
  },
): Promise<unknown> {
  const { term, signal, dueMs, counts } = context;
  const { sourceId } = deps.source;
  const refetches = await takeRefetches(deps.pool, { sourceId, limit: READS_MAX });
  let unavailable = 0;
  for (const refetch of refetches) {
    if (counts.refetches > 0 && deps.clock.monotonicMs() >= dueMs) break;
    term.assertLeading();
    counts.refetches += 1;
    const requestedAt = deps.client.providerClock.providerNow();
    const { answer, error } = await readOrder(deps, { refetch, signal });
    const failure = failureOf(error);
    if (answer !== undefined) counts.applied += await applyAnswer(deps, { refetch, answer });
    else if (failure === "not_found") counts.applied += await applyAbsent(deps, { refetch, requestedAt });
    // A rate-limit refusal says nothing about the order.
    else if (failure !== "rate_limited") await noteFailure(deps, { refetch, error });
    unavailable = failure === "timeout" || failure === "unavailable" ? unavailable + 1 : 0;
    const concernsAll = failure === "rate_limited" || failure === "key_refused";
    if (concernsAll || unavailable >= UNAVAILABLE_MAX) return error;
  }
  return undefined;
}

/** Any error of the read is the order's, so that it holds up no other one. */
function readOrder(
  { client }: PollDeps,
  { refetch, signal }: { refetch: Refetch; signal: AbortSignal },
): Promise<{ answer?: OrderRead; error?: unknown }> {
  const how = { priority: "refetch", attemptsMax: 1, signal } as const;
  return client.getOrder(refetch.reference, how).then(
    (answer) => ({ answer }),
    (error: unknown) => {
      signal.throwIfAborted();
      return { error };
    },
  );
}

async function noteFailure(
  { source: { sourceId }, pool, logger, intervalSeconds }: PollDeps,
  { refetch, error }: { refetch: Refetch; error: unknown },
): Promise<void> {
  const firstWaitMs = intervalSeconds * 1_000;
  const failure = { sourceId, refetch, error: describeMessage(error), firstWaitMs };
  if (!(await noteRefetchFailure(pool, failure))) return;
  const { reference } = refetch;
  logger.warn({ reference, err: error }, "an order cannot be read singly; it is in quarantine");
}

/**
 * Applies the answer as what it is: a path also takes an externalOrderId, so it may show another order than the one
 * whose reference was asked for. Then there is no such order.
 */
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
  const applied = decisions.filter(isChange).length;
  if (snapshot.fields.reference !== refetch.reference) {
    return applied + (await applyAbsent(deps, { refetch, requestedAt }));
  }
  const stored = decisions[0]?.storedVersion ?? version;
  const decisive = stored > version ? stored : version;
  const waitMs = untilDecided(deps, { reach: decisive, requestedAt });
  // A claim that stands may be an exception to what is proved, so its request stays.
  const isFarAhead = stored <= version && waitMs > WAIT_MAX_MS;
  if (isFarAhead) {
    const { reference, reason } = refetch;
    logger.warn({ reference, reason }, "the order is dated more than six hours ahead; no longer read singly");
  }
  await endAttempt(deps, {
    refetch,
    shown: version,
    // News since a verification has read its lists is no difference.
    differed: decisions.filter(isChange).some(({ verdict, conflict }) => verdict === "corrected" || conflict),
    waitMs: waitMs <= 0 || isFarAhead ? undefined : waitMs,
  });
  return applied;
}

/**
 * Handles every answer that shows no such order. The order is gone with the second one in a row, a margin after the
 * first, unless the mirror has a claim that is too recent for such reads, or the list is in doubt.
 */
async function applyAbsent(
  deps: PollDeps,
  { refetch, requestedAt }: { refetch: Refetch; requestedAt: Instant },
): Promise<number> {
  const { marginSeconds } = deps;
  const { reference, missedAt: missedBefore } = refetch;
  const horizon = horizonOf({ requestedAt, marginSeconds });
  const { outcome, isKnown, missedAt, reach } = await applyAbsence(deps.pool, {
    sourceId: deps.source.sourceId,
    reference,
    via: "refetch",
    requestedAt,
    horizon,
    missedAt: missedBefore,
    marginSeconds,
  });
  const isGone = outcome === "gone";
  if (isGone) {
    deps.logger.warn({ reference }, "the provider has no order with this reference; it is no longer served");
  }
  const isOver = isGone || outcome === "confirmed" || outcome === "unknown";
  // Nothing is taken away from an order that the mirror never had.
  const takesNothing = !isKnown && !refetch.isExcepted;
  const from = reach ?? missedAt ?? requestedAt;
  const waitMs = isOver || takesNothing ? undefined : untilDecided(deps, { reach: from, requestedAt });
  await endAttempt(deps, { refetch, shown: undefined, differed: isGone, waitMs, missedAt });
  return isGone ? 1 : 0;
}

/** Milliseconds until a read's horizon lies beyond an instant: one second more, because the clock is a lower bound. */
function untilDecided(
  { marginSeconds }: PollDeps,
  { reach, requestedAt }: { reach: Instant; requestedAt: Instant },
): number {
  if (requestedAt > addSeconds(reach, marginSeconds)) return 0;
  return millisFromInstant(reach - requestedAt) + (marginSeconds + 1) * 1_000;
}

/** `waitMs`: until the next read can tell more; undefined ends the request. */
async function endAttempt(
  { source: { sourceId }, pool, marginSeconds }: PollDeps,
  attempt: {
    refetch: Refetch;
    shown: Instant | undefined;
    differed: boolean;
    waitMs: number | undefined;
    missedAt?: Instant | null;
  },
): Promise<void> {
  const { refetch, shown, differed, waitMs, missedAt = null } = attempt;
  if (waitMs === undefined)
    return completeRefetch(pool, { sourceId, refetch, shown, differed, marginSeconds });
  const bounded = Math.min(waitMs, WAIT_MAX_MS);
  await postponeRefetch(pool, { sourceId, refetch, shown, waitMs: bounded, missedAt });
}
