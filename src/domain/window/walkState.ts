import { addSeen, NOTHING_SEEN } from "./seenKeys.ts";
import type { Walk } from "./walk.ts";

/** Increment when Walk changes: a walk in another format is started again. */
const FORMAT = 3;

/** The walk as JSON, without its seen keys: those grow with each page and are stored page by page. */
export function encodeWalk(walk: Walk): string {
  const rest = { ...walk, seen: undefined, fresh: undefined };
  return JSON.stringify({ format: FORMAT, complete: walk.seen.complete, walk: rest }, toPlain);
}

/** Decodes a walk with the new keys of each of its pages; undefined if it has another format. */
export function decodeWalk(text: string, pages: readonly (readonly string[])[]): Walk | undefined {
  const stored = JSON.parse(text, fromPlain) as {
    format: number;
    complete: boolean;
    walk: Omit<Walk, "seen" | "fresh">;
  };
  if (stored.format !== FORMAT) return undefined;
  const seen = pages.reduce((earlier, keys) => addSeen(earlier, keys).seen, NOTHING_SEEN);
  return { ...stored.walk, seen: { ...seen, complete: stored.complete }, fresh: [] };
}

interface PlainBigint {
  readonly bigint: string;
}
interface PlainSet {
  readonly set: readonly unknown[];
}

function toPlain(_: string, value: unknown): unknown {
  if (typeof value === "bigint") return { bigint: String(value) } satisfies PlainBigint;
  return value instanceof Set ? ({ set: [...value] } satisfies PlainSet) : value;
}

function fromPlain(_: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if ("bigint" in value) return BigInt((value as PlainBigint).bigint);
  return "set" in value ? new Set((value as PlainSet).set) : value;
}
