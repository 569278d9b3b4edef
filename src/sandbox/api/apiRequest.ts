import type { Caller } from "../world/directory.ts";
import type { EndpointName } from "../../wire/endpoints.ts";
import type { Policy } from "./rateLimits.ts";

/** A request with a known key and budget left. */
export interface ApiRequest {
  readonly caller: Caller;
  /** The decoded `{reference}` of the path; empty if the path has none. */
  readonly reference: string;
  readonly query: URLSearchParams;
  /** The parsed JSON body; undefined if there is none. */
  readonly body: unknown;
}

export interface ApiAnswer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Endpoint {
  /** The name used by the fault `onlyEndpoints` and by the journal. */
  readonly name: EndpointName;
  readonly method: "GET" | "POST" | "PATCH";
  /** `:reference` matches one path segment. */
  readonly path: string;
  readonly policies: readonly Policy[];
  /** Whether it creates orders or previews them: it needs a paid subscription, and warns while that is past due. */
  readonly sells: boolean;
  /** Other endpoints ignore the body. */
  readonly readsBody: boolean;
  readonly answer: (request: ApiRequest) => Promise<ApiAnswer>;
}
