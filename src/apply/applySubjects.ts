import type { Via } from "../domain/order/observation.ts";
import { applyBatch } from "./applyBatch.sql.ts";
import { toBatchRows, type BatchDecision, type BatchRow } from "./batchRow.sql.ts";
import type { Verdict } from "./verdicts.ts";
import type { Pool, Queryable } from "../database/database.ts";
import { onConnection } from "../database/transaction.ts";
import { classifyDatabaseError, sqlState, unlessAway } from "../database/databaseErrors.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import type { Subject } from "./subject.ts";

/** Maximum rows per statement: more bring no gain (measured) and hold locks longer. */
export const BATCH_ROWS_MAX = 200;

/** Maximum bytes of orders per statement: 4 MiB take some seconds on a busy server, and a statement at most 15. */
export const BATCH_BYTES_MAX = 4 * 1_048_576;

const NOT_NOW = "Postgres could not apply a batch now.";

/** The decision on one observation or event. */
export interface Decision {
  readonly sourceId: string;
  readonly reference: string | null;
  readonly via: Via;
  readonly verdict: Verdict;
  /** Same version as the stored order, different content. */
  readonly conflict: boolean;
  readonly reason: string | null;
  readonly eventId: string | null;
  readonly eventType: string | null;
  readonly status: string | null;
  /** The previous status if the order changed; null for a new order. */
  readonly previousStatus: string | null;
  /** updatedAt of the snapshot in nanoseconds. */
  readonly version: bigint | null;
  /** updatedAt of the order after the decision; null if there is no order. */
  readonly storedVersion: bigint | null;
}

/** True if the decision changed an order. */
export function isChange({ verdict }: Pick<Decision, "verdict">): boolean {
  return verdict === "applied" || verdict === "corrected";
}

export interface ApplyDeps {
  readonly pool: Pool;
  readonly logger: Logger;
  /** Called with each decision once, after its commit; must not throw. */
  readonly onDecisions?: ((decisions: readonly Decision[]) => void) | undefined;
}

/**
 * The one place where the mirror changes. Decides on subjects in batches, each in one statement that is a transaction,
 * with at most `bytesMax` bytes of orders: no batch holds a lock while another one waits for it.
 *
 * A row whose content the database refuses is found by halving and goes to quarantine, while the others are applied.
 * Rejects with UnavailableError if the database is unavailable or busy: earlier batches stay applied. All subjects may
 * be passed again, because applying is idempotent.
 */
export async function applySubjects(
  deps: ApplyDeps,
  subjects: readonly Subject[],
  bytesMax: number,
): Promise<Decision[]> {
  const { pool, logger, onDecisions } = deps;
  const decisions: Decision[] = [];
  if (subjects.length === 0) return decisions;
  try {
    await onConnection(pool, (client) => applyAll({ logger, decisions, client, bytesMax }, subjects));
  } catch (error) {
    throw unlessAway(error, NOT_NOW);
  } finally {
    // After an error, too: the earlier batches are committed.
    if (decisions.length > 0) onDecisions?.(decisions);
  }
  return decisions;
}

interface Run {
  readonly logger: Logger;
  readonly client: Queryable;
  /** Gets the decisions of each batch that has run. */
  readonly decisions: Decision[];
  /** Of orders, per statement; one order may have more. */
  readonly bytesMax: number;
}

async function applyAll(run: Run, subjects: readonly Subject[]): Promise<void> {
  let start = 0;
  let bytes = 0;
  for (const [place, subject] of subjects.entries()) {
    const longer = bytes + rawLengthOf(subject);
    const isFull = place - start === BATCH_ROWS_MAX || (place > start && longer > run.bytesMax);
    if (isFull) await applyOrSplit(run, subjects.slice(start, place));
    if (isFull) start = place;
    bytes = isFull ? rawLengthOf(subject) : longer;
  }
  if (start < subjects.length) await applyOrSplit(run, subjects.slice(start));
}

/** Counts the characters of all orders, which stand for their bytes. */
export const sizeOf = (subjects: readonly Subject[]): number =>
  subjects.reduce((sum, subject) => sum + rawLengthOf(subject), 0);

function rawLengthOf(subject: Subject): number {
  if (subject.kind === "observation") return subject.observation.snapshot.raw.length;
  return subject.kind === "quarantined" ? (subject.raw?.length ?? 0) : 0;
}

async function applyOrSplit(run: Run, subjects: readonly Subject[]): Promise<void> {
  const rows = toBatchRows(subjects);
  let decided: BatchDecision[];
  try {
    decided = await applyBatch(run.client, rows);
  } catch (error) {
    if (classifyDatabaseError(error) !== "refused-content") throw error;
    return splitOrQuarantine(run, subjects, error);
  }
  for (const decision of decided) run.decisions.push(toDecision(decision, rows));
}

async function splitOrQuarantine(run: Run, subjects: readonly Subject[], error: unknown): Promise<void> {
  const [first] = subjects;
  if (first === undefined) return;
  if (subjects.length > 1) {
    const middle = Math.ceil(subjects.length / 2);
    await applyOrSplit(run, subjects.slice(0, middle));
    return applyOrSplit(run, subjects.slice(middle));
  }
  // A refused quarantine row would be quarantined forever: then its content is not the cause.
  if (first.kind !== "observation") throw error;
  const code = sqlState(error) ?? "unknown";
  const { reference } = first.observation.snapshot.fields;
  run.logger.warn(
    { source: first.sourceId, reference, via: first.via, code },
    "the database refused an order",
  );
  return applyOrSplit(run, [
    {
      kind: "quarantined",
      sourceId: first.sourceId,
      via: first.via,
      event: first.event,
      reason: "refused_by_database",
      detail: `SQLSTATE ${code}`,
      reference,
      raw: first.event === null ? first.observation.snapshot.raw : null,
    },
  ]);
}

function toDecision(decision: BatchDecision, rows: readonly BatchRow[]): Decision {
  const row = rows[decision.n];
  if (row === undefined) throw new TypeError("the database answered for a row that was not sent");
  return {
    sourceId: row.source_id,
    reference: row.reference,
    via: row.via,
    verdict: decision.verdict,
    conflict: decision.conflict,
    reason: row.reason,
    eventId: row.event_id,
    eventType: row.event_type,
    status: typeof row.status === "string" ? row.status : null,
    previousStatus: decision.previous_status,
    version: row.version,
    storedVersion: decision.stored_version === null ? null : BigInt(decision.stored_version),
  };
}
