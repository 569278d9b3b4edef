import { OrderMirrorError, UnavailableError } from "../domain/errors.ts";

/** Reaction to a Postgres error. */
export type DatabaseFault = "transient" | "refused-content" | "other";

/** SQLSTATE classes of transient faults: connection, rollback, resources, locks, operator, system. */
const TRANSIENT = ["08", "40", "53", "55", "57", "58", "25"];
/** Connection errors, but not a pooler's refusal of a setting; a server that stops, has crashed or starts. */
const LOST_STATES = /^(08(?!P01)|57P)/;
const LOST_CODES = [
  "EAI_AGAIN",
  "ECONNREFUSED",
  "ECONNRESET",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EPIPE",
  "ETIMEDOUT",
];
/** The driver's words, which knex puts behind the statement; these errors have no code. */
const LOST_MESSAGES =
  /^(?:ROLLBACK - )?(?:Client has encountered|Connection terminated|Query read timeout|timeout e)/;

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

/** The error to reject with: UnavailableError with this message, if the database is away or busy. */
export function unlessAway(error: unknown, message: string): unknown {
  return isDatabaseAway(error) ? new UnavailableError(message, { cause: error }) : error;
}

/** Whether a connection was lost or not made. Narrower than isDatabaseAway, for errors from anywhere. */
export function isConnectionLost(error: unknown): boolean {
  const code = sqlState(error);
  if (code !== undefined) return LOST_STATES.test(code);
  const { code: systemCode, message } = (error ?? {}) as { code?: unknown; message?: unknown };
  return LOST_CODES.includes(String(systemCode)) || LOST_MESSAGES.test(String(message));
}
