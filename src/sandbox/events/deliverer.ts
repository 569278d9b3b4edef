import { millisFromInstant } from "../../domain/order/instant.ts";
import { loadScheme } from "../../signature/scheme.ts";
import { makeSigner } from "../../signature/sign.ts";
import { chance } from "../world/chance.ts";
import { MARK, addMillis, shownTime } from "../world/state.ts";
import { recordDelivery, readDueDeliveries } from "./events.sql.ts";
import type { AttemptResult, DueSandboxDelivery } from "./events.sql.ts";
import type { SandboxState } from "../world/state.ts";

const DELIVERIES_AT_ONCE_MAX = 16;

export type Deliverer = ReturnType<typeof makeDeliverer>;

/** Sends events, several concurrently. */
export function makeDeliverer(deps: { state: SandboxState; signal: AbortSignal }) {
  const { state, signal } = deps;
  /** By their ids. What a stopped process was sending stays pending, and the next start attempts it again. */
  const underWay = new Map<bigint, Promise<void>>();
  const deliver = async (delivery: DueSandboxDelivery) => {
    const result = await sendDelivery(state, delivery, signal);
    // Ended by the shutdown, not by the receiver.
    if (signal.aborted && result.status === null) return;
    await recordDelivery(state.pool, result);
    const { eventId, eventType, reference } = delivery;
    state.logger.debug(
      { event_id: eventId, event_type: eventType, reference, outcome: result.state, status: result.status },
      "delivery attempted",
    );
    state.wake();
  };
  return {
    /** Whether the maximum number is under way; when one ends, it wakes the loop. */
    isFull: () => underWay.size >= DELIVERIES_AT_ONCE_MAX,
    /** The ids of those under way. */
    sending: () => [...underWay.keys()],
    /** Starts due deliveries while there is room; on a virtual clock, waits for them to end. */
    begin: async () => {
      // One at a time on a virtual clock, so that receivers see the same sequence in every run.
      const room = state.clock.kind === "virtual" ? 1 : DELIVERIES_AT_ONCE_MAX - underWay.size;
      if (room <= 0 || signal.aborted) return;
      const due = { now: state.clock.now(), sending: [...underWay.keys()], limit: room };
      for (const delivery of await readDueDeliveries(state.pool, due)) {
        const { deliveryId } = delivery;
        const task = deliver(delivery)
          .catch((error: unknown) => state.logger.error({ err: error }, "a delivery was not recorded"))
          .finally(() => underWay.delete(deliveryId));
        underWay.set(deliveryId, task);
      }
      if (state.clock.kind === "virtual") await Promise.all(underWay.values());
    },
    /** Waits until every delivery under way has ended; returns how many there were. */
    drain: async () => (await Promise.all(underWay.values())).length,
  };
}

/** Assumed: the spec shows no timeout, no retry schedule and no success codes. */
const ATTEMPT_TIMEOUT_MS = 10_000;
const RETRY_FACTOR = 4;
const ATTEMPTS_MAX = 8;

/**
 * Attempts one delivery: a signed POST of the event, successful if answered with 2xx within ten seconds. Redirects are
 * not followed. After a failure it is due again after `retryBaseMs` times 4 for each earlier attempt: with 5 s that is
 * 5 s, 20 s, 80 s, 5 min, 21 min, 85 min and 6 h; after the eighth attempt it has failed.
 */
async function sendDelivery(
  state: SandboxState,
  delivery: DueSandboxDelivery,
  signal: AbortSignal,
): Promise<AttemptResult> {
  // A downgrade stops events immediately (spec, "Events"), including pending retries.
  const hasPlan = state.directory.findOrganization(delivery.organizationId)?.plan === "advanced";
  const { status, error } = hasPlan
    ? await post(state, delivery, signal)
    : { status: null, error: "no_plan" };
  const received = status !== null && status >= 200 && status < 300;
  const waitMs = state.dials.retryBaseMs * RETRY_FACTOR ** delivery.attempts;
  const unsuccessful = !hasPlan || delivery.attempts + 1 >= ATTEMPTS_MAX ? "failed" : "pending";
  const now = state.clock.now();
  return {
    deliveryId: delivery.deliveryId,
    status,
    error,
    state: received ? "delivered" : unsuccessful,
    dueAt: addMillis(now, waitMs),
  };
}

async function post(
  state: SandboxState,
  delivery: DueSandboxDelivery,
  signal: AbortSignal,
): Promise<{ status: number | null; error: string | null }> {
  try {
    const body = Buffer.from(delivery.body, "utf8");
    const response = await fetch(delivery.url, {
      method: "POST",
      headers: { ...MARK, "content-type": "application/json", ...signDelivery(state, delivery, body) },
      body,
      redirect: "manual",
      signal: AbortSignal.any([signal, AbortSignal.timeout(ATTEMPT_TIMEOUT_MS)]),
    });
    await response.body?.cancel();
    return { status: response.status, error: null };
  } catch (error) {
    return { status: null, error: nameFailure(error) };
  }
}

function signDelivery(
  state: SandboxState,
  delivery: DueSandboxDelivery,
  body: Buffer,
): Record<string, string> {
  const { clock, dials, faults } = state;
  const { corruptShare } = faults.current();
  const isCorrupt = delivery.corrupt || chance(dials.seed, "corrupt", delivery.eventId) < corruptShare;
  const sign = makeSigner({
    scheme: loadScheme(delivery.scheme),
    secret: delivery.secret,
    url: delivery.url,
  });
  const nowSeconds = Math.floor(millisFromInstant(shownTime(clock.now(), faults.current())) / 1_000);
  // Signing other bytes gives a well-formed signature that cannot verify.
  const signed = isCorrupt ? Buffer.concat([body, Buffer.from(" ")]) : body;
  return sign({ id: delivery.eventId, body: signed, nowSeconds });
}

function nameFailure(error: unknown): string {
  const { name, cause } = error as Error & { cause?: { code?: unknown } };
  return typeof cause?.code === "string" ? cause.code : name;
}
