import { parseList, Token } from "structured-headers";

/** An entry of the field `RateLimit`: `remaining` requests until `resetMs` from now (null: not given). */
export interface RemainingEntry {
  readonly policy: string;
  readonly remaining: number;
  readonly resetMs: number | null;
}

/** An entry of the field `RateLimit-Policy`: `requestsMax` per `windowMs`. */
interface DeclaredEntry {
  readonly policy: string;
  readonly requestsMax: number;
  readonly windowMs: number;
}

/** What a response says about rates (spec, "Limits"; draft on RateLimit header fields). */
export interface RateAnswer {
  readonly remaining: readonly RemainingEntry[];
  readonly declared: readonly DeclaredEntry[];
}

interface NamedEntry {
  readonly name: string;
  readonly params: ReadonlyMap<string, unknown>;
}

/** Ignores malformed parts, as the draft requires; never throws. */
export function readRateHeaders(headers: Headers): RateAnswer {
  const policies = parseNamedList(headers.get("ratelimit-policy"));
  // A policy may count something else, such as bytes; then its numbers say nothing about requests.
  const foreign = new Set(policies.filter((entry) => !countsRequests(entry)).map(({ name }) => name));
  return {
    declared: policies.filter(countsRequests).flatMap(readDeclared),
    remaining: parseNamedList(headers.get("ratelimit"))
      .filter(({ name }) => !foreign.has(name))
      .flatMap(readRemaining),
  };
}

/**
 * The members of an RFC 9651 list that are named by a string or a token (the draft's examples use both), with their
 * parameters. A malformed list is empty; members of other kinds are omitted. @internal
 */
export function parseNamedList(field: string | null): NamedEntry[] {
  if (field === null) return [];
  return tryParseList(field).flatMap(([value, params]) => {
    if (typeof value === "string") return [{ name: value, params }];
    return value instanceof Token ? [{ name: value.toString(), params }] : [];
  });
}

function tryParseList(field: string): ReturnType<typeof parseList> {
  try {
    return parseList(field);
  } catch {
    return [];
  }
}

function countsRequests({ params }: NamedEntry): boolean {
  const unit = params.get("qu");
  return unit === undefined || unit === "requests";
}

function readDeclared({ name, params }: NamedEntry): DeclaredEntry[] {
  const requestsMax = readCount(params.get("q"));
  const windowSeconds = readCount(params.get("w"));
  if (requestsMax === null || windowSeconds === null || windowSeconds === 0) return [];
  return [{ policy: name, requestsMax, windowMs: windowSeconds * 1000 }];
}

function readRemaining({ name, params }: NamedEntry): RemainingEntry[] {
  const remaining = readCount(params.get("r"));
  if (remaining === null) return [];
  const resetSeconds = readCount(params.get("t"));
  return [{ policy: name, remaining, resetMs: resetSeconds === null ? null : resetSeconds * 1000 }];
}

function readCount(value: unknown): number | null {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 ? value : null;
}
