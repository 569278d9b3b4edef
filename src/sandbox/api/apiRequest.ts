import type { Caller } from "../world/directory.ts";
import type { EndpointName } from "../control/faults.ts";
import type { Policy } from "./rateLimits.ts";

/** A request whose key is known and whose budget is not used up. */
export interface ApiRequest {
  readonly caller: Caller;
  /** The `{reference}` of the path, decoded; empty where the path has none. */
  readonly reference: string;
  readonly query: URLSearchParams;
  /** The parsed JSON body; undefined where there is none. */
  readonly body: unknown;
}

export interface ApiAnswer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, string>>;
}

/** One endpoint of the spec. */
export interface Endpoint {
  /** As the fault `onlyEndpoints` and the journal name it. */
  readonly name: EndpointName;
  readonly method: "GET" | "POST" | "PATCH";
  /** `:reference` stands for one path segment. */
  readonly path: string;
  readonly policies: readonly Policy[];
  /** Whether it makes orders or previews them: needs a paid subscription, and warns while that is past due. */
  readonly sells: boolean;
  /** Other endpoints ignore whatever body they are sent. */
  readonly readsBody: boolean;
  readonly answer: (request: ApiRequest) => Promise<ApiAnswer>;
}
