import { tryParseInstant } from "../domain/order/instant.ts";
import { membersOf, type Members } from "./order.ts";

/** A value of JSON that has no parts. */
type Plain = string | number | boolean | null;

/**
 * An order object without personal data: both references, status, times, fleet and branch stay. Its fields are listed
 * one by one, as in mirror.redact_order, which erases and so removes the business's own reference, too: a field that
 * the provider adds later is not included.
 */
export function redactOrder(raw: string): string {
  const order = membersOf(JSON.parse(raw));
  const schedule = membersOf(order["schedule"]);
  const resolved = membersOf(schedule["resolved"]);
  return JSON.stringify({
    ...pick(order, ["reference", "externalOrderId", "status", "livemode"]),
    fleet: pick(membersOf(order["fleet"]), ["name"]),
    schedule: {
      ...pick(schedule, ["mode"]),
      resolved: { ...pickTimes(resolved, ["pickupTime", "deliveryTime"]), ...pick(resolved, ["basis"]) },
    },
    ...pickTimes(order, ["pickupTime", "deliveryTime", "realPickupTime", "realDeliveryTime", "updatedAt"]),
    branch: pick(membersOf(order["branch"]), ["id", "reference"]),
  });
}

/** Only plain values: an object in the place of a text may be anything. */
function pick(members: Members, names: readonly string[]): Record<string, Plain> {
  return Object.fromEntries(
    names.map((name) => {
      const value = members[name] ?? null;
      return [name, typeof value === "object" ? null : (value as Plain)];
    }),
  );
}

/** Only times: any text may stand in the place of one. */
function pickTimes(members: Members, names: readonly string[]): Record<string, Plain> {
  const values = Object.entries(pick(members, names)).map(([name, value]) => {
    const isTime = typeof value === "string" && tryParseInstant(value) !== undefined;
    return [name, isTime ? value : null];
  });
  return Object.fromEntries(values) as Record<string, Plain>;
}
