import { refuseField, refused } from "../api/refusal.ts";
import { ConfigurationError } from "../../domain/errors.ts";
import { millisFromInstant, type Instant } from "../../domain/order/instant.ts";
import { loadScheme } from "../../signature/scheme.ts";
import { makeSigner } from "../../signature/sign.ts";
import {
  putEndpoint,
  readDueDeliveries,
  readEndpoints,
  recordDelivery,
  insertSandboxEvents,
  type AttemptResult,
  type DueSandboxDelivery,
  type EventRow,
  type NewDelivery,
  type WebhookEndpoint,
} from "./events.sql.ts";
import { addMillis, MARK, shownTime, type SandboxState } from "../world/state.ts";
import { chance, makeCode } from "../world/chance.ts";
import { showOrder, formatTime, type OrderRow } from "../api/orderRow.ts";
import type { Mode } from "../../domain/source/orderSource.ts";
import { takeNumbers, type Connection } from "../world/world.sql.ts";

/** Assumed: the spec says that events are signed, not how; any scheme can be set. */
const DEFAULT_SCHEME = "standard-webhooks";

export interface WebhookRequest {
  readonly organizationId: string;
  readonly mode: Mode;
  readonly url: string;
  readonly secret: string;
  /** Name of a preset or JSON of a scheme. */
  readonly scheme?: string | undefined;
  /** Several endpoints of one mode have different names; default `main`. */
  readonly name?: string | undefined;
}

/**
 * Adds or replaces a webhook endpoint, as the dashboard would. Throws ConfigurationError for an unusable address,
 * scheme or secret, and feature_not_available on a plan without webhooks (spec, "Events").
 */
export async function setWebhook(state: SandboxState, request: WebhookRequest): Promise<WebhookEndpoint> {
  const { organizationId, mode, url, secret, scheme = DEFAULT_SCHEME, name = "main" } = request;
  if (state.directory.getOrganization(organizationId).plan !== "advanced") {
    throw refused(403, "feature_not_available", "The plan has no webhooks.");
  }
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw new ConfigurationError("A webhook's address must be an http or https URL.");
  }
  makeSigner({ scheme: loadScheme(scheme), secrets: [secret], url });
  const livemode = mode === "live";
  const endpointId = `${organizationId}-${mode}-${name}`;
  const endpoint: WebhookEndpoint = { endpointId, organizationId, livemode, url, secret, scheme };
  await state.write(async (connection) => {
    // A test event must never reach a live receiver (spec, "Events").
    const isShared = (await readEndpoints(connection)).some(
      (other) =>
        other.organizationId === organizationId &&
        other.livemode !== livemode &&
        (other.url === url || other.secret === secret),
    );
    if (isShared) throw refuseField("An endpoint of the other mode has this address or this secret.");
    await putEndpoint(connection, endpoint);
  });
  return endpoint;
}

/** Types that the spec shows. Assumed: the names of all others; and that a creation or change sends none. */
const SHOWN_TYPES: readonly string[] = ["order.picked_up", "order.cancelled"];

/** Deliberate treatment of one event, regardless of the shares in force. */
export interface DeliveryPlan {
  readonly lose?: boolean | undefined;
  readonly copies?: number | undefined;
  readonly delayMs?: number | undefined;
}

/** An order that has just reached its status, at `at` by the provider's clock. */
export interface StatusStep {
  readonly row: OrderRow;
  readonly at: Instant;
  readonly plan: DeliveryPlan;
  /** True for a change of other fields; its events are optional, like those of a creation. */
  readonly isUpdate?: boolean;
}

/**
 * Records the events of `steps` and their deliveries, in the caller's transaction.
 *
 * The plan and the endpoints are read for each event (spec, "Events"): on a plan without webhooks the event is
 * recorded as not sent, for the control interface alone.
 */
export async function emitEvents(
  state: SandboxState,
  connection: Connection,
  steps: readonly StatusStep[],
): Promise<void> {
  const announced = steps.filter((step) => nameEvent(state, step) !== undefined);
  if (announced.length === 0) return;
  const numbers = await takeNumbers(connection, "event_number", announced.length);
  const endpoints = await readEndpoints(connection);
  const made = announced.map((step, index) => makeEvent(state, step, numbers[index] ?? 0n, endpoints));
  await insertSandboxEvents(
    connection,
    made.map(({ event }) => event),
    made.flatMap(({ deliveries }) => deliveries),
  );
}

/** The type of the event; undefined if the step has none. */
function nameEvent({ decisions }: SandboxState, { row, isUpdate = false }: StatusStep): string | undefined {
  if (isUpdate || row.status === "created") {
    return decisions.changeEvents === "sent" ? `order.${isUpdate ? "updated" : "created"}` : undefined;
  }
  const type = `order.${row.status}`;
  return decisions.announced === "all" || SHOWN_TYPES.includes(type) ? type : undefined;
}

function makeEvent(
  state: SandboxState,
  step: StatusStep,
  eventNumber: bigint,
  endpoints: readonly WebhookEndpoint[],
): { event: EventRow; deliveries: NewDelivery[] } {
  const { row, at, plan } = step;
  const { dials, directory } = state;
  const faults = state.faults.current();
  const eventId = `evt_${makeCode(20, dials.seed, "event", eventNumber)}`;
  const type = nameEvent(state, step) ?? "";
  const receivers = endpoints.filter(
    ({ organizationId, livemode }) => organizationId === row.organizationId && livemode === row.livemode,
  );
  const isHit = (fault: string, share: number) => chance(dials.seed, fault, eventId) < share;
  const isLost = plan.lose ?? isHit("lose", faults.loseShare);
  const hasPlan = directory.findOrganization(row.organizationId)?.plan === "advanced";
  const outcome = isLost ? "lost" : "event";
  const sentAs = !hasPlan ? "no_plan" : receivers.length === 0 ? "no_endpoint" : outcome;
  const { eventTimestampGranularity: own, timestampGranularity } = faults;
  const granularity = own === "same" ? timestampGranularity : own;
  const { organizationId, livemode, reference } = row;
  const created = formatTime(at, granularity, state.utcOffsetMinutes);
  // The envelope (spec, "Events"); its data is the order at this moment, without request_id.
  const envelope = { id: eventId, type, created, livemode, data: showOrder(state, row, granularity) };
  const event: EventRow = {
    eventNumber,
    eventId,
    organizationId,
    livemode,
    reference,
    type,
    sentAs,
    created: at,
    body: JSON.stringify(envelope),
  };
  if (sentAs !== "event") return { event, deliveries: [] };
  const copies = plan.copies ?? (isHit("duplicate", faults.duplicateShare) ? 2 : 1);
  const lateMs = isHit("delay", faults.delayShare) ? chance(dials.seed, "held", eventId) * faults.delayMs : 0;
  const dueAt = addMillis(state.clock.now(), plan.delayMs ?? lateMs);
  const deliveries = receivers.flatMap(({ endpointId }) =>
    Array.from({ length: copies }, () => ({ eventId, endpointId, dueAt })),
  );
  return { event, deliveries };
}

const DELIVERIES_AT_ONCE_MAX = 16;

export type Deliverer = ReturnType<typeof makeDeliverer>;

/** Sends events, several concurrently. */
export function makeDeliverer(deps: { state: SandboxState; signal: AbortSignal }) {
  const { state, signal } = deps;
  /**
   * Deliveries under way, by their ids. What a stopped process was sending stays pending, and the next start attempts
   * it again.
   */
  const underWay = new Map<bigint, Promise<void>>();
  const deliver = async (delivery: DueSandboxDelivery) => {
    const result = await sendDelivery(state, delivery, signal);
    // Ended by the shutdown, not by the receiver.
    if (signal.aborted && result.status === null) return;
    await recordDelivery(state.pool, result);
    const { eventId, type: eventType, reference } = delivery;
    state.logger.debug(
      { event_id: eventId, event_type: eventType, reference, outcome: result.state, status: result.status },
      "delivery attempted",
    );
    state.wake();
  };
  return {
    /** Tells whether the maximum number is under way; when one ends, it wakes the loop. */
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
  const outcome = received ? "delivered" : unsuccessful;
  const dueAt = addMillis(state.clock.now(), waitMs);
  return { deliveryId: delivery.deliveryId, status, error, state: outcome, dueAt };
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
    const { name, cause } = error as Error & { cause?: { code?: unknown } };
    return { status: null, error: typeof cause?.code === "string" ? cause.code : name };
  }
}

function signDelivery(
  state: SandboxState,
  delivery: DueSandboxDelivery,
  body: Buffer,
): Record<string, string> {
  const { clock, dials, faults } = state;
  const { corruptShare } = faults.current();
  const isCorrupt = chance(dials.seed, "corrupt", delivery.eventId) < corruptShare;
  const sign = makeSigner({
    scheme: loadScheme(delivery.scheme),
    secrets: [delivery.secret],
    url: delivery.url,
  });
  const nowSeconds = Math.floor(millisFromInstant(shownTime(clock.now(), faults.current())) / 1_000);
  // Signing other bytes gives a well-formed signature that cannot verify.
  const signed = isCorrupt ? Buffer.concat([body, Buffer.from(" ")]) : body;
  return sign({ id: delivery.eventId, body: signed, nowSeconds });
}
