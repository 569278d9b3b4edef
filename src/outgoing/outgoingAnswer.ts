import { listUnescaped } from "../domain/unescaped.ts";
import { redactOrder } from "../wire/redactOrder.ts";

const SHOWN_LENGTH_MAX = 200;
/** Shorter values appear in texts by chance. */
const HIDDEN_LENGTH_MIN = 3;
const HIDDEN = "[…]";
const SECRETS = /\b(?:whsec_|whsk_|bearer\s+|basic\s+|v1a?,)[\w+/=.~-]+/gi;
const UNPRINTABLE = /[\s\p{C}]+/gu;

/**
 * The beginning of an endpoint's answer to the message `sent`, as people may see it; null if it is empty. Control
 * characters become spaces. Secrets, and what the message said about the order beyond its redacted form, are hidden.
 */
export function showAnswer(beginning: Buffer, sent: Buffer): string | null {
  // Escapes hide what the message said from the comparison, but not from people.
  const plain = listUnescaped(beginning.toString("utf8")).at(-1) ?? "";
  const text = plain.replace(UNPRINTABLE, " ").trim().replaceAll(SECRETS, HIDDEN);
  if (text === "") return null;
  return hide(text, listPersonal(sent)).slice(0, SHOWN_LENGTH_MAX);
}

function hide(text: string, values: readonly string[]): string {
  // The longest first, because one may contain another.
  const patterns = values
    .toSorted((left, right) => right.length - left.length)
    .map((value) => value.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return patterns.length === 0 ? text : text.replaceAll(new RegExp(patterns.join("|"), "gi"), HIDDEN);
}

function listPersonal(sent: Buffer): string[] {
  const { data } = JSON.parse(sent.toString()) as { data: { before?: unknown; after?: unknown } };
  const orders = [data.before, data.after].filter((order) => order !== null && order !== undefined);
  const shown = new Set(
    orders.flatMap((order) => listValues(JSON.parse(redactOrder(JSON.stringify(order))))),
  );
  const values = orders.flatMap(listValues);
  return [...new Set(values)].filter((value) => value.length >= HIDDEN_LENGTH_MIN && !shown.has(value));
}

function listValues(part: unknown): string[] {
  if (typeof part === "object" && part !== null) return Object.values(part).flatMap(listValues);
  return typeof part === "string" || typeof part === "number" ? [String(part).replace(UNPRINTABLE, " ")] : [];
}
