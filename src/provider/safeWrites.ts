import { isFinal } from "../domain/order/order.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import type { CreateOrderRequest } from "../wire/api.ts";
import type { OrderAnswer } from "./client.ts";
import { ProviderError } from "./errors.ts";
import type { ProviderClock } from "./rate/providerClock.ts";
import { ATTEMPTS_MAX, backoffMs } from "./transport.ts";
import type { RequestOptions } from "./transport.ts";

/** The plain requests, each sent once (again after a 429). */
export interface PlainOrderRequests<Creation = CreateOrderRequest> {
  createOrder(body: Creation, options?: RequestOptions): Promise<OrderAnswer>;
  cancelOrder(reference: string, options?: RequestOptions): Promise<OrderAnswer>;
  getOrder(reference: string, options?: RequestOptions): Promise<OrderAnswer>;
}

const hasCode = (error: unknown, code: string) => error instanceof ProviderError && error.code === code;

interface SafeWritesDeps<Creation> {
  readonly plain: PlainOrderRequests<Creation>;
  readonly clock: Clock;
  readonly providerClock: ProviderClock;
  readonly random: () => number;
}

/** Writes that are sent again after an unknown outcome, but only after a look-up. */
export function makeSafeWrites<Creation extends Pick<CreateOrderRequest, "externalOrderId">>(
  deps: SafeWritesDeps<Creation>,
): Pick<PlainOrderRequests<Creation>, "createOrder" | "cancelOrder"> {
  const { plain, clock, providerClock, random } = deps;

  async function createOrder(body: Creation, options: RequestOptions = {}): Promise<OrderAnswer> {
    const externalOrderId = body.externalOrderId ?? "";
    // Without an id to look up, sending again could create a second delivery.
    if (externalOrderId === "") return plain.createOrder(body, options);
    const startedAtMs = clock.monotonicMs();
    return insist(
      { clock, random, signal: options.signal },
      {
        write: () => plain.createOrder(body, options),
        isDoneAlready: (error) => hasCode(error, "duplicate_external_order_id"),
        lookUp: async () => {
          const found = await findCreated(externalOrderId, options);
          // An order from before our first attempt is not ours: the id was already in use.
          return found !== null && isOlder(found, startedAtMs) ? null : found;
        },
      },
    );
  }

  async function cancelOrder(reference: string, options: RequestOptions = {}): Promise<OrderAnswer> {
    return insist(
      { clock, random, signal: options.signal },
      {
        write: () => plain.cancelOrder(reference, options),
        isDoneAlready: (error) => hasCode(error, "order_not_cancellable"),
        lookUp: async () => {
          const found = await plain.getOrder(reference, options);
          return isFinal(found.snapshot.fields.status) ? found : null;
        },
      },
    );
  }

  async function findCreated(externalOrderId: string, options: RequestOptions): Promise<OrderAnswer | null> {
    try {
      const found = await plain.getOrder(externalOrderId, options);
      // The path also matches references, and another order's reference may equal our id.
      return found.snapshot.fields.externalOrderId === externalOrderId ? found : null;
    } catch (error) {
      // Only the provider's own code counts: after a proxy's 404, a second delivery would be created.
      if (hasCode(error, "order_not_found")) return null;
      throw error;
    }
  }

  /** Certain only if the provider's clock is known: our bound of it is never late. */
  function isOlder({ snapshot }: OrderAnswer, startedAtMs: number): boolean {
    return providerClock.isSynchronized() && snapshot.version < providerClock.instantAt(startedAtMs);
  }

  return { createOrder, cancelOrder };
}

interface Attempts {
  readonly write: () => Promise<OrderAnswer>;
  /** Whether this is the refusal of a repeated write whose earlier attempt succeeded. */
  readonly isDoneAlready: (error: unknown) => boolean;
  /** The order if the write was carried out; null if it was not. */
  readonly lookUp: () => Promise<OrderAnswer | null>;
}

async function insist(
  { clock, random, signal }: { clock: Clock; random: () => number; signal: AbortSignal | undefined },
  { write, isDoneAlready, lookUp }: Attempts,
): Promise<OrderAnswer> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await write();
    } catch (error) {
      const isOpen = error instanceof ProviderError && error.isOutcomeUnknown();
      if (!isOpen && !(attempt > 1 && isDoneAlready(error))) throw error;
      const done = await lookUpOr(error, signal, lookUp);
      if (done !== null) return done;
      if (!isOpen || error.failure === "unreadable" || attempt === ATTEMPTS_MAX) throw error;
      await clock.sleep(backoffMs(attempt, random), signal);
    }
  }
}

/** If the look-up also fails, the caller needs the write's own error. */
async function lookUpOr<Result>(
  failure: unknown,
  signal: AbortSignal | undefined,
  lookUp: () => Promise<Result>,
): Promise<Result> {
  try {
    return await lookUp();
  } catch (error) {
    signal?.throwIfAborted();
    throw error instanceof ProviderError ? failure : error;
  }
}
