import { microsFromInstant } from "../../domain/order/instant.ts";
import { compareKeys } from "../../domain/order/observation.ts";
import type { OrderKey } from "../../domain/order/observation.ts";
import { lifeCycleRank } from "../../domain/order/order.ts";
import type { Snapshot } from "../../domain/order/order.ts";
import { ORDER_COLUMN_LIST } from "../../domain/order/orderColumns.ts";
import { readSnapshot } from "../../wire/order.ts";
import type { KeptKey, KeptObservation, KeptOrder } from "./keptOrders.sql.ts";

/** An order that this program would store differently from the mirror. */
export interface Difference {
  readonly sourceId: string;
  readonly reference: string;
  /**
   * `missing`: the history has it, but the mirror does not. `unexplained`: the mirror shows content that no kept
   * observation has. `state`: another observation wins by this program's rules. `content`: this program reads the content
   * differently.
   */
  readonly kind: "missing" | "unexplained" | "state" | "content";
  /** Names of the columns that differ; never their values, which may be personal. */
  readonly columns: readonly string[];
}

/**
 * Folds the kept history of an order by this program's rules, and compares the result with the mirror; undefined when they
 * are the same.
 *
 * A read that shows known content again moves the stored key without leaving a row in the history. So the stored key
 * counts as an observation, provided that the history has its content.
 */
export function rehearseOrder(kept: KeptOrder): Difference | undefined {
  const { sourceId, reference, stored, erased, observations } = kept;
  const differ = (kind: Difference["kind"], columns: readonly string[]) =>
    columns.length === 0 ? undefined : { sourceId, reference, kind, columns };
  const isKnown = observations.some(
    ({ hash, version }) => hash === stored.hash && version === stored.version,
  );
  if (!isKnown) return differ("unexplained", ["version", "hash"]);
  const keys = observations.map((observation) => readKey(observation, { erased, observations }));
  const storedKey = toKey(stored);
  const winner = keys.reduce((best, key) => (compareKeys(key, best) > 0 ? key : best), storedKey);
  const moved = (["gone", "version", "hash"] as const).filter((name) =>
    // An absence has no content: the order keeps its last one.
    winner.gone && storedKey.gone ? false : winner[name] !== storedKey[name],
  );
  return differ("state", moved) ?? differ("content", compareContent(kept));
}

/** The columns that this program would fill differently from the stored content. */
function compareContent({ stored, erased }: KeptOrder): string[] {
  const snapshot = read(stored.raw);
  if (snapshot === undefined) return ["raw"];
  const { fields, version, hash } = snapshot;
  const columns = ORDER_COLUMN_LIST.filter(({ field, column, personal }) => {
    if (erased && personal) return stored.columns[column] !== null;
    const value = fields[field];
    return (typeof value === "bigint" ? String(microsFromInstant(value)) : value) !== stored.columns[column];
  }).map(({ column }) => column as string);
  if (version !== BigInt(stored.version)) columns.push("version");
  // A redacted order has a different hash.
  if (!erased && hash !== stored.hash) columns.push("hash");
  if (lifeCycleRank(fields.status) !== stored.rank) columns.push("rank");
  return columns;
}

/** The place of an observation by this program's rules: its content, where kept, is read again. */
function readKey(
  observation: KeptObservation,
  { erased, observations }: { erased: boolean; observations: readonly KeptObservation[] },
): OrderKey {
  const { hash, version, rank } = observation;
  const raw = observation.raw ?? observations.find((other) => other.hash === hash && other.raw !== null)?.raw;
  const snapshot = version === null || raw === null || raw === undefined ? undefined : read(raw);
  return toKey({
    ...observation,
    gone: version === null,
    version: String(snapshot?.version ?? version ?? observation.horizon ?? 0),
    hash: (erased ? undefined : snapshot?.hash) ?? hash ?? "",
    rank: snapshot === undefined ? (rank ?? 0) : lifeCycleRank(snapshot.fields.status),
  });
}

function toKey({ horizon, gone, version, settled, observedAt, rank, hash }: KeptKey): OrderKey {
  return {
    horizon: horizon === null ? null : BigInt(horizon),
    gone,
    version: BigInt(version),
    settled,
    observedAt: BigInt(observedAt),
    rank,
    hash,
  };
}

function read(raw: string): Snapshot | undefined {
  try {
    return readSnapshot(raw, JSON.parse(raw));
  } catch {
    // This program cannot read it: its content differs.
    return undefined;
  }
}
