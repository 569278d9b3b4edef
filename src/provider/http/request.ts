import type { Instant } from "../../domain/order/instant.ts";
import type { PolicyName } from "../rate/policies.ts";
import type { RateAnswer } from "../rate/rateHeaders.ts";
import type { Priority } from "../../domain/source/orderSource.ts";

export interface ProviderRequest {
  readonly method: "GET" | "POST" | "PATCH" | "PUT" | "DELETE";
  /** The spec's form of the path, such as `/v1/orders/{reference}`: the only part that errors and log lines show. */
  readonly route: string;
  /** The value of `{reference}` in `route`. */
  readonly reference?: string;
  readonly query?: URLSearchParams;
  readonly body?: unknown;
  /** Sent instead of `route`: a foreign path and query, from `/v1/` on. */
  readonly path?: string;
  /** Sent unchanged instead of `body`; not on shared memory. No type argument: TypeScript has none before 5.7. */
  readonly bytes?: Uint8Array | undefined;
  readonly policy: PolicyName;
  /** True if the request changes nothing at the provider, so that it may be repeated freely. */
  readonly safe: boolean;
}

export interface RequestOptions {
  /** Default `poll`, the most urgent. */
  readonly priority?: Priority | undefined;
  readonly signal?: AbortSignal | undefined;
  /** The maximum number of attempts; default 4. For a caller that retries itself. */
  readonly attemptsMax?: number | undefined;
  /** Abandons the wait for a turn in the budget, but nothing that was sent. */
  readonly turnSignal?: AbortSignal | undefined;
}

/** A success: 2xx with a JSON body. */
export interface ProviderAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly value: unknown;
  readonly requestId: string | null;
  /** The limits in its headers. */
  readonly rates: RateAnswer["declared"];
  /** The provider's time at which the request started, a lower bound. */
  readonly requestedAt: Instant;
}

/** Sends one request, once. Throws a ProviderError, or the reason of the caller's signal. */
export type SendRequest = (request: ProviderRequest, options: RequestOptions) => Promise<ProviderAnswer>;

export interface Answered {
  /** Such as `GET /v1/orders/{reference}`: the route, without the order's name. */
  readonly endpoint: string;
  /** Null when there was no answer. */
  readonly status: number | null;
}

/** Such as `POST /v1/orders`. */
export function describeEndpoint({ method, route }: ProviderRequest): string {
  return `${method} ${route}`;
}
