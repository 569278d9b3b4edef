import type { FoundState } from "../certificates/periodStates.sql.ts";
import { microsFromInstant } from "../domain/order/instant.ts";
import { ORDER_COLUMN_LIST } from "../domain/order/orderColumns.ts";
import type { OrderFields } from "../domain/order/orderColumns.ts";
import { EXPORT_COLUMNS } from "../orders/export/orderExport.sql.ts";
import type { ExportCell } from "../orders/export/orderExport.sql.ts";
import { readSnapshot } from "../wire/order.ts";
import type { NamedBranch } from "./dailyFiles.sql.ts";

const NAMES = Object.keys(EXPORT_COLUMNS);

/**
 * Turns certified states into rows of EXPORT_COLUMNS, with times as microseconds. An unchanged order has the same row as
 * in an export; one that has changed since has its columns as they were, and no revision or changed_at.
 */
export function makeOrderRow(
  sourceId: string,
  branches: readonly NamedBranch[],
): (found: FoundState) => ExportCell[] {
  const byId = new Map(branches.map((branch) => [branch.branchId, branch]));
  const byReference = new Map(branches.toReversed().map((branch) => [branch.reference, branch]));
  return ({ state, raw, noted }) => {
    const fields = readFields(raw);
    const { branchId = null, branchReference = null } = fields ?? {};
    const branch =
      branchId !== null
        ? byId.get(branchId)
        : branchReference === null
          ? undefined
          : byReference.get(branchReference);
    const cells: Record<string, ExportCell> = {
      source_id: sourceId,
      reference: state?.reference ?? null,
      ...Object.fromEntries(
        ORDER_COLUMN_LIST.map(({ field, column }) => [column, toCell(fields?.[field] ?? null)]),
      ),
      branch_reference: branch?.reference ?? branchReference,
      branch_name: branch?.name ?? null,
      updated_at: state && toCell(state.version),
      version: state && String(state.version),
      content_hash: state?.hash ?? null,
      revision: noted.revision,
      first_seen_via: noted.firstSeenVia,
      first_seen_at: noted.firstSeenAt,
      changed_at: noted.changedAt,
    };
    return NAMES.map((name) => cells[name] ?? null);
  };
}

/** Undefined if the content was removed. */
function readFields(raw: string | null): OrderFields | undefined {
  return raw === null ? undefined : readSnapshot(raw, JSON.parse(raw)).fields;
}

function toCell(value: string | boolean | bigint | null): ExportCell {
  return typeof value === "bigint" ? String(microsFromInstant(value)) : value;
}
