import { OrderMirrorError } from "../domain/errors.ts";

/** How to react to a Postgres error. */
export type DatabaseFault = "transient" | "refused-content" | "other";

/** SQLSTATE classes of transient faults: connection, rollback, resources, locks, operator, system. */
const TRANSIENT = ["08", "40", "53", "55", "57", "58", "25"];
/** SQLSTATE classes that blame the content: cardinality, data, constraint, limit. */
const REFUSED_CONTENT = ["21", "22", "23", "54"];

/**
 * Classifies the error of a query. An error without SQLSTATE comes from the connection (refused, reset, timed out), so
 * it is transient. Syntax, missing tables and rights are "other": neither a retry nor omitting a row would help.
 */
export function classifyDatabaseError(error: unknown): DatabaseFault {
  const code = sqlState(error);
  if (code === undefined)
    return error instanceof Error && !(error instanceof TypeError) ? "transient" : "other";
  if (TRANSIENT.includes(code.slice(0, 2))) return "transient";
  return REFUSED_CONTENT.includes(code.slice(0, 2)) ? "refused-content" : "other";
}

/** The five-character SQLSTATE of a database error, or undefined. */
export function sqlState(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | undefined)?.code;
  // Requiring a digit excludes EPIPE, a system error of the same shape.
  return typeof code === "string" && /^(?=.*\d)[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

/** Whether an error says that the database is down, busy or read-only: a state that ends without intervention. */
export function isDatabaseAway(error: unknown): boolean {
  return !(error instanceof OrderMirrorError) && classifyDatabaseError(error) === "transient";
}
