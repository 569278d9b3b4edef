import { fold, orderIdentity } from "../domain/order/fold.ts";
import { microsFromInstant } from "../domain/order/instant.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { Observation } from "../domain/order/observation.ts";
import type { BatchRow } from "./batchRow.sql.ts";
import type { Subject } from "./subject.ts";

/** An observation and its place in the batch. */
type Placed = Observation & { readonly n: number };

/** The rows that applyBatch decides on, one per subject, `n` being its index. */
export function toBatchRows(subjects: readonly Subject[]): BatchRow[] {
  const placed = subjects.flatMap((subject, n) =>
    subject.kind === "observation" ? { ...subject.observation, n } : [],
  );
  const greatest = new Map(fold(placed).map((observation) => [orderIdentity(observation), observation]));
  return subjects.map((subject, n) => toRow(subject, n, greatest));
}

function toRow(subject: Subject, n: number, greatest: ReadonlyMap<string, Placed>): BatchRow {
  switch (subject.kind) {
    case "observation":
      return observationRow(subject, n, greatest);
    case "ignored": {
      const { reason, names } = subject;
      return { ...rowWithoutOrder(subject, n), verdict: "ignored", reason, names };
    }
    case "quarantined": {
      const { reason, detail, reference, names, raw } = subject;
      const version = subject.version?.toString() ?? null;
      const told = { reason, detail, reference, version, names, raw };
      return { ...rowWithoutOrder(subject, n), verdict: "quarantined", ...told };
    }
    default: {
      const never: never = subject;
      return never;
    }
  }
}

/** One literal and no parts spread into it: with this many columns that costs ten times the rest (measured). */
function observationRow(
  subject: Subject & { kind: "observation" },
  n: number,
  greatestByOrder: ReadonlyMap<string, Placed>,
): BatchRow {
  const { event, observation } = subject;
  const { key, snapshot } = observation;
  const { fields } = snapshot;
  const winner = greatestByOrder.get(orderIdentity(observation));
  const greatest = winner === undefined || winner.n === n;
  return {
    n,
    source_id: subject.sourceId,
    via: subject.via,
    inbox_seq: event?.inboxSeq ?? null,
    event_id: event?.eventId ?? null,
    event_type: event?.eventType ?? null,
    verdict: null,
    reason: null,
    detail: null,
    greatest,
    reference: fields.reference,
    names: null,
    horizon: key.horizon === null ? null : key.horizon.toString(),
    version: key.version.toString(),
    settled: key.settled,
    observed_at: key.observedAt.toString(),
    rank: key.rank,
    hash: key.hash,
    external_order_id: fields.externalOrderId,
    status: fields.status,
    livemode: fields.livemode,
    fleet_name: fields.fleetName,
    branch_id: fields.branchId,
    branch_reference: fields.branchReference,
    schedule_mode: fields.scheduleMode,
    resolved_pickup_time: toMicros(fields.resolvedPickupTime),
    resolved_delivery_time: toMicros(fields.resolvedDeliveryTime),
    resolved_basis: fields.resolvedBasis,
    pickup_time: toMicros(fields.pickupTime),
    delivery_time: toMicros(fields.deliveryTime),
    real_pickup_time: toMicros(fields.realPickupTime),
    real_delivery_time: toMicros(fields.realDeliveryTime),
    updated_at: toMicros(key.version),
    raw: snapshot.raw,
  };
}

function rowWithoutOrder(subject: Subject, n: number): BatchRow {
  return {
    n,
    source_id: subject.sourceId,
    via: subject.via,
    inbox_seq: subject.event?.inboxSeq ?? null,
    event_id: subject.event?.eventId ?? null,
    event_type: subject.event?.eventType ?? null,
    verdict: null,
    reason: null,
    detail: null,
    greatest: false,
    reference: null,
    names: null,
    horizon: null,
    version: null,
    settled: null,
    observed_at: null,
    rank: null,
    hash: null,
    external_order_id: null,
    status: null,
    livemode: null,
    fleet_name: null,
    branch_id: null,
    branch_reference: null,
    schedule_mode: null,
    resolved_pickup_time: null,
    resolved_delivery_time: null,
    resolved_basis: null,
    pickup_time: null,
    delivery_time: null,
    real_pickup_time: null,
    real_delivery_time: null,
    updated_at: null,
    raw: null,
  };
}

function toMicros(instant: Instant): string;
function toMicros(instant: Instant | null): string | null;
function toMicros(instant: Instant | null): string | null {
  return instant === null ? null : microsFromInstant(instant).toString();
}
