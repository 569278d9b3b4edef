import type { Caller } from "../world/directory.ts";

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
