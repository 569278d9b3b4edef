import { createHash } from "node:crypto";
import { formatInstant, tryParseInstant } from "../../../src/domain/order/instant.ts";
import type { Instant } from "../../../src/domain/order/instant.ts";
import type { Snapshot } from "../../../src/domain/order/order.ts";
import { SourceError } from "../../../src/domain/source/errors.ts";
import type {
  EventReader,
  ListedOrder,
  OrderSource,
  SourceEvent,
} from "../../../src/domain/source/orderSource.ts";

/** A parcel as this other provider writes it. */
interface Parcel {
  readonly no: string;
  readonly state: string;
  readonly changed: number;
}

class NoParcelError extends SourceError {
  override readonly name = "NoParcelError";
  override readonly retry = "never";
  override readonly failure = "not_found";
}

/** Its own names and milliseconds instead of the first provider's fields and ISO times. */
function toSnapshot(raw: string): Snapshot {
  const { no, state, changed } = JSON.parse(raw) as Parcel;
  const version = BigInt(changed) * 1_000_000n;
  const nothing = {
    externalOrderId: null,
    livemode: null,
    fleetName: null,
    branchId: null,
    branchReference: null,
  };
  const noTimes = { pickupTime: null, deliveryTime: null, realPickupTime: null, realDeliveryTime: null };
  const unresolved = {
    resolvedPickupTime: null,
    resolvedDeliveryTime: null,
    resolvedBasis: null,
    scheduleMode: null,
  };
  const fields = { ...nothing, ...noTimes, ...unresolved, reference: no, status: state };
  return { fields, version, hash: createHash("sha256").update(raw).digest("hex"), raw };
}

function listed(raw: string): ListedOrder {
  const { no, changed } = JSON.parse(raw) as Partial<Parcel>;
  if (typeof changed === "number") return { kind: "order", snapshot: toSnapshot(raw) };
  return { kind: "unreadable", raw, detail: "changed is no number", reference: no ?? null };
}

/** Its events: `{"event":"evt-1","what":"parcel.moved","at":…,"parcel":{…}}`. */
export const parcelEvents: EventReader = {
  readEventId(body) {
    try {
      return (JSON.parse(body.toString()) as { event?: unknown }).event;
    } catch {
      return undefined;
    }
  },
  readEvent(body): SourceEvent {
    try {
      const { what, at, parcel } = JSON.parse(body.toString()) as {
        what: string;
        at: string;
        parcel?: Parcel;
      };
      if (parcel === undefined) return { kind: "other", type: what };
      const snapshot = toSnapshot(JSON.stringify(parcel));
      return { kind: "order", type: what, created: tryParseInstant(at), livemode: null, snapshot };
    } catch {
      return { kind: "unreadable", type: null, reason: "not_json", detail: "no JSON", reference: null };
    }
  },
};

export interface CursorSource extends OrderSource {
  put(reference: string, state: string): void;
  remove(reference: string): void;
  putRaw(raw: string): void;
  eventOf(reference: string): Buffer;
  /** The cursors of the requested pages. */
  readonly pages: () => number;
}

/** Another provider, in memory: it pages by cursor, three parcels a page, and knows no offsets. */
export function makeCursorSource(now: () => Instant): CursorSource {
  const PAGE = 3;
  const parcels = new Map<string, string>();
  let pages = 0;
  let events = 0;

  /** Its own endpoint: the parcels after `cursor`, which is the place of the last one. */
  function listAfter(cursor: string | null, { since, until }: { since: Instant; until: Instant }) {
    pages += 1;
    const placeOf = (raw: string) => {
      const { changed, no } = JSON.parse(raw) as Parcel;
      return `${String(changed ?? 0).padStart(16, "0")} ${no}`;
    };
    const inside = (raw: string) => {
      const { changed } = JSON.parse(raw) as Partial<Parcel>;
      if (changed === undefined) return true;
      const version = BigInt(changed) * 1_000_000n;
      return version >= since && version < until;
    };
    const rest = [...parcels.values()]
      .filter((raw) => inside(raw) && (cursor === null || placeOf(raw) > cursor))
      .toSorted((left, right) => (placeOf(left) < placeOf(right) ? -1 : 1));
    const page = rest.slice(0, PAGE);
    return { page, next: rest.length > PAGE ? placeOf(page.at(-1) ?? "") : null };
  }

  const clock = {
    providerNow: now,
    isSynchronized: () => true,
    skewSeconds: () => 0,
    disagreementSeconds: () => null,
    compareWith: () => undefined,
  };
  return {
    promises: { pageRowsMax: PAGE, rateWindowMs: 0 },
    providerClock: clock,
    async listWindow({ since, until, offset }) {
      const requestedAt = now();
      const rows: string[] = [];
      let cursor: string | null = null;
      // Reads from the start to the page at the offset, because its cursors do not outlive a list.
      for (;;) {
        const { page, next } = listAfter(cursor, { since, until });
        rows.push(...page);
        cursor = next;
        if (next === null || rows.length >= offset + PAGE) break;
      }
      const shown = rows.slice(offset, offset + PAGE);
      const hasMore = cursor !== null || rows.length > offset + PAGE;
      return { elements: shown.map(listed), hasMore, limit: PAGE, requestedAt, rate: "not said" };
    },
    async getOrder(reference) {
      const requestedAt = now();
      const raw = parcels.get(reference);
      if (raw === undefined) throw new NoParcelError("there is no such parcel");
      return { snapshot: toSnapshot(raw), requestedAt };
    },
    listBranches: () => Promise.resolve({ raws: [], hasMore: false }),
    put(no, state) {
      parcels.set(no, JSON.stringify({ no, state, changed: Number(now() / 1_000_000n) }));
    },
    remove: (reference) => void parcels.delete(reference),
    putRaw: (raw) => void parcels.set(raw, raw),
    eventOf(reference) {
      const parcel = JSON.parse(parcels.get(reference) ?? "null") as unknown;
      const event = `evt-${(events += 1)}`;
      return Buffer.from(JSON.stringify({ event, what: "parcel.moved", at: formatInstant(now()), parcel }));
    },
    pages: () => pages,
  };
}
