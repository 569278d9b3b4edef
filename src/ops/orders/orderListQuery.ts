import { formatInstant, NANOS_PER_SECOND, tryParseInstant } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import type { OrderFilter } from "../../orders/orderFilter.sql.ts";
import { readField } from "../html/requests.ts";
import { LIST_SORTS, ORDER_MARKS } from "./orderList.sql.ts";
import type { ListPosition, ListSort, OrderMark } from "./orderList.sql.ts";

/** The time that a period is of. */
export const PERIODS_OF = ["updated", "pickup", "delivery"] as const;
/** Periods that end now, in hours. */
export const WITHIN: Readonly<Record<string, number>> = { "1h": 1, "24h": 24, "7d": 168, "30d": 720 };

/** What the address of the order list asks for. A value that means nothing is as if it were absent. */
export interface OrderListQuery {
  /** Part of a reference or an external id. */
  readonly text: string;
  readonly source: string;
  readonly branch: string;
  readonly fleet: string;
  readonly status: string;
  readonly marks: readonly OrderMark[];
  readonly periodOf: (typeof PERIODS_OF)[number];
  /** A word of WITHIN; empty: from and until. */
  readonly within: string;
  readonly from: Instant | null;
  /** Exclusive. */
  readonly until: Instant | null;
  readonly sort: ListSort;
  readonly ascending: boolean;
  readonly after: ListPosition | null;
}

/** The maximum length of an external id; no other name is longer. */
export const TEXT_LENGTH_MAX = 512;

type Parameters = Readonly<Record<string, unknown>>;

export function parseOrderList(query: Parameters): OrderListQuery {
  const field = (name: string) => readField(query[name]).trim().slice(0, TEXT_LENGTH_MAX);
  const within = field("within");
  const isRelative = Object.hasOwn(WITHIN, within);
  return {
    text: field("q"),
    source: field("source"),
    branch: field("branch"),
    fleet: field("fleet"),
    status: field("status"),
    marks: pickWords(ORDER_MARKS, query["is"]),
    periodOf: PERIODS_OF.find((word) => word === field("of")) ?? "updated",
    within: isRelative ? within : "",
    from: isRelative ? null : readMinute(field("from")),
    until: isRelative ? null : readMinute(field("until")),
    sort: LIST_SORTS.find((word) => word === field("sort")) ?? "updated",
    ascending: field("dir") === "up",
    after: readPosition(field("after")),
  };
}

/** The query as an address; what is as by default is left out. `after` is left out unless it is given in `changes`. */
export function writeOrderList(query: OrderListQuery, changes: Partial<OrderListQuery> = {}): string {
  const to = { ...query, after: null, ...changes };
  const parameters = new URLSearchParams();
  const put = (name: string, value: string, standard = "") => {
    if (value !== standard) parameters.append(name, value);
  };
  put("q", to.text);
  for (const name of ["source", "branch", "fleet", "status", "within"] as const) put(name, to[name]);
  for (const mark of to.marks) put("is", mark);
  put("from", writeMinute(to.from));
  put("until", writeMinute(to.until));
  put("of", to.periodOf, "updated");
  put("sort", to.sort, "updated");
  put("dir", to.ascending ? "up" : "");
  if (to.after !== null) put("after", writePosition(to.after));
  const text = parameters.toString();
  return text === "" ? "" : `?${text}`;
}

/** The filter on fields of orders; `now` ends a relative period. */
export function toFieldFilter(query: OrderListQuery, now: Instant): Omit<OrderFilter, "sourceId"> {
  const { branch, fleet, status, periodOf, within } = query;
  const hours = WITHIN[within];
  const from =
    hours === undefined ? query.from : now - BigInt(hours) * BigInt(SECONDS_PER_HOUR) * NANOS_PER_SECOND;
  // Planned times lie in the future, too: "within 24 h" is then on either side of now.
  const ahead = periodOf === "updated" || from === null ? null : now + (now - from);
  const until = hours === undefined ? query.until : ahead;
  const [since, end] = {
    updated: ["updatedSince", "updatedUntil"] as const,
    pickup: ["pickupFrom", "pickupUntil"] as const,
    delivery: ["deliveryFrom", "deliveryUntil"] as const,
  }[periodOf];
  return {
    ...(from === null ? {} : { [since]: from }),
    ...(until === null ? {} : { [end]: until }),
    ...(status === "" ? {} : { status }),
    ...(branch === "" ? {} : { branchId: branch }),
    ...(fleet === "" ? {} : { fleet }),
  };
}

/** `2026-11-22T14:32`, as a browser's field of date and time has it, in UTC; empty for null. */
export function writeMinute(instant: Instant | null): string {
  return instant === null ? "" : formatInstant(instant, 0).slice(0, MINUTE_LENGTH);
}

const MINUTE_LENGTH = 16;
const SECONDS_PER_HOUR = 3_600;

function readMinute(text: string): Instant | null {
  return /^\d{4}-\d\d-\d\dT\d\d:\d\d$/.test(text) ? (tryParseInstant(`${text}:00Z`) ?? null) : null;
}

function writePosition({ at, sourceId, reference }: ListPosition): string {
  return [String(at), encodeURIComponent(sourceId), encodeURIComponent(reference)].join("~");
}

function readPosition(text: string): ListPosition | null {
  const [, at, source, reference] = /^(-?\d{1,18}|-?[1-8]\d{18})~([^~]+)~(.+)$/.exec(text) ?? [];
  if (at === undefined || source === undefined || reference === undefined) return null;
  try {
    return {
      at: BigInt(at),
      // Only the second decoding shows a NUL that was encoded twice.
      sourceId: readField(decodeURIComponent(source)),
      reference: readField(decodeURIComponent(reference)),
    };
  } catch {
    return null;
  }
}

/** The words of a parameter that is given once or several times. */
function pickWords<Word extends string>(words: readonly Word[], given: unknown): Word[] {
  const texts: unknown[] = Array.isArray(given) ? given : [given];
  return words.filter((word) => texts.includes(word));
}
