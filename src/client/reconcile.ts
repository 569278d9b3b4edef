import { randomBytes } from "node:crypto";
import type { z } from "zod";
import { OrderMirrorError } from "../domain/errors.ts";
import { parseInstant, tryParseInstant } from "../domain/order/instant.ts";
import type { OrderState } from "../domain/order/order.ts";
import type { ProviderAnswer, ProviderRequest } from "../provider/http/request.ts";
import { makeUnreadable, parseAnswer } from "../provider/orderAnswer.ts";
import { RANGES_MAX, reconciledSchema } from "../wire/reconcile.ts";
import {
  compareBounds,
  FIRST_BOUND,
  LAST_BOUND,
  readBound,
  writeBound,
  writeFingerprint,
} from "../wire/stateRange.ts";
import type { RangeSum, StateBound, StateRange } from "../wire/stateRange.ts";
import type { Freshness, Order } from "./answers.ts";
import type { Change } from "./change.ts";
import type { Connection } from "./connection.ts";
import { readFeedPages } from "./feedPages.ts";
import { stateOf, sumStates } from "./orderStore.ts";
import type { OrderStore, StoredOrder } from "./orderStore.ts";

/** What a reconciliation did. The store now equals the mirror at `position`; see docs/client.md. */
export interface Reconciliation extends Pick<Freshness, "safeThrough" | "exceptions"> {
  /** Continue from here: `mirror.changes({ after: position })`. */
  readonly position: string;
  /** Orders that the store lacked, or had in another state, or that changed meanwhile. */
  readonly written: number;
  /** Orders that the mirror does not have. */
  readonly removed: number;
  readonly requests: number;
  /** Of the bodies, before compression. */
  readonly bytesSent: number;
  readonly bytesReceived: number;
}

/** The store does not have what it was given: it loses or changes orders, or another program writes to it. */
export class StoreDiffersError extends OrderMirrorError {
  override readonly name = "StoreDiffersError";
  override readonly retry = "never";
}

/** Into how many parts a range is cut that differs. Ranges of at most as many orders are listed. */
const PARTS = 16;
/** What a mirror reads in about a second: one request must not compare more. */
const STATES_MAX = 500_000;
const WHOLE: StateRange = { since: FIRST_BOUND, until: LAST_BOUND };
const ROUTE = "/v1/reconcile";

/** A range of one request. */
interface Piece extends StateRange, RangeSum {
  /** What the store has in it, if the mirror is asked for the differences. */
  readonly states?: readonly OrderState[];
}

type Answer = z.infer<typeof reconciledSchema>;
type Differing = Answer["differing"][number];
type Send = (request: ProviderRequest) => Promise<ProviderAnswer>;

/**
 * Makes the store equal to the mirror, for a number of bytes and requests in proportion to what differs.
 *
 * Ranges of states whose fingerprints differ are cut into smaller ones, until they are small enough to be listed. Each
 * answer is of one instant, and all of them are behind the position of the first. So what changed during the exchange is
 * read from the feed after that position, and written last.
 *
 * If it ends early, for whatever reason, the store has a part of the differences, and the next call finds the rest.
 * Nothing else may write to the store meanwhile. Throws StoreDiffersError, ProviderErrors, and errors of the store.
 */
export async function reconcile(
  connection: Connection,
  store: OrderStore,
  { signal }: { readonly signal?: AbortSignal | undefined } = {},
): Promise<Reconciliation> {
  const cost = { requests: 0, bytesSent: 0, bytesReceived: 0 };
  const send: Send = async (request) => {
    const answer = await connection.send(request, { signal });
    cost.requests += 1;
    cost.bytesSent += request.bytes?.byteLength ?? 0;
    cost.bytesReceived += Buffer.byteLength(answer.text);
    return answer;
  };
  const exchange: Exchange = {
    send,
    store,
    salt: randomBytes(16).toString("hex"),
    written: new Set(),
    removed: new Set(),
    start: undefined,
  };
  let level: readonly StateRange[] = [WHOLE];
  while (level.length > 0) level = await compareLevel(exchange, level);
  const { start } = exchange;
  if (start === undefined) throw new TypeError("a level has at least one request");
  const end = await catchUp(exchange, start);
  return { ...end, written: exchange.written.size, removed: exchange.removed.size, ...cost };
}

interface Exchange {
  readonly send: Send;
  readonly store: OrderStore;
  readonly salt: string;
  readonly written: Set<string>;
  readonly removed: Set<string>;
  /** The position of the first answer. */
  start: string | undefined;
}

/** Compares these ranges, which are ascending; resolves with those of the next level. */
async function compareLevel(exchange: Exchange, level: readonly StateRange[]): Promise<StateRange[]> {
  const next: StateRange[] = [];
  let rest = level;
  while (rest.length > 0) {
    const taken = rest.slice(0, Math.floor(RANGES_MAX / PARTS));
    rest = rest.slice(taken.length);
    const cuts = await exchange.store.cuts(taken, PARTS);
    const parts = taken.flatMap((range, index) => divide(range, cuts[index] ?? []));
    if (parts.length > 0) next.push(...(await compareParts(exchange, parts)));
    const small = taken.filter((_, index) => cuts[index]?.length === 0);
    // After the others: what the store has must not change between its sums and the answer.
    if (small.length > 0) next.push(...(await compareLists(exchange, small)));
  }
  return next.toSorted((a, b) => compareBounds(a.since, b.since));
}

/** The parts between the cuts; none without cuts. */
function divide({ since, until }: StateRange, cuts: readonly StateBound[]): StateRange[] {
  if (cuts.length === 0) return [];
  const bounds = [since, ...cuts, until];
  return bounds.slice(1).map((end, index) => ({ since: bounds[index] ?? since, until: end }));
}

/** Resolves with the ranges that differ. */
async function compareParts(exchange: Exchange, parts: readonly StateRange[]): Promise<StateRange[]> {
  const sums = await exchange.store.sums(parts, exchange.salt);
  const pieces = parts.map((range, index): Piece => ({ ...range, ...(sums[index] ?? NOTHING) }));
  const differing: StateRange[] = [];
  for (const asked of batch(pieces))
    differing.push(...(await ask(exchange, asked)).differing.map(({ range }) => pick(asked, range)));
  return differing;
}

/** Pieces for one request each. */
function* batch(pieces: readonly Piece[]): Generator<Piece[], void, void> {
  let taken: Piece[] = [];
  let states = 0;
  for (const piece of pieces) {
    if (taken.length > 0 && states + piece.count > STATES_MAX) {
      yield taken;
      [taken, states] = [[], 0];
    }
    taken.push(piece);
    states += piece.count;
  }
  if (taken.length > 0) yield taken;
}

/** Lists small ranges and writes what differs; resolves with the parts that were not answered yet. */
async function compareLists(exchange: Exchange, ranges: readonly StateRange[]): Promise<StateRange[]> {
  const { store, salt } = exchange;
  const lists = await store.states(ranges);
  const pieces = ranges.map((range, index): Piece => {
    const states = lists[index] ?? [];
    return { ...range, count: states.length, sum: sumStates(states, salt), states };
  });
  const { differing } = await ask(exchange, pieces);
  await apply(exchange, differing);
  const answered = differing.map(({ range, next }) => {
    const { since, until } = pick(pieces, range);
    return { since, until: readBound(next ?? "") ?? until };
  });
  const sums = answered.length === 0 ? [] : await store.sums(answered, salt);
  const isEqual = ({ fingerprint }: Differing, index: number) =>
    writeFingerprint(sums[index] ?? NOTHING) === fingerprint;
  if (!differing.every(isEqual)) throw makeStoreDiffers();
  return differing.flatMap(({ range, next }) => {
    const since = readBound(next ?? "");
    return since === undefined ? [] : [{ since, until: pick(pieces, range).until }];
  });
}

const NOTHING: RangeSum = { count: 0, sum: 0n };

function pick(pieces: readonly Piece[], index: number): StateRange {
  const piece = pieces[index];
  if (piece === undefined) throw new TypeError("the ranges of an answer are checked");
  return { since: piece.since, until: piece.until };
}

function makeStoreDiffers(): StoreDiffersError {
  return new StoreDiffersError("the store does not have the orders that it was given", {
    fix: "Let no other program write to it meanwhile, and let put() replace orders by reference and keep their hash.",
  });
}

async function ask(exchange: Exchange, pieces: readonly Piece[]): Promise<Answer> {
  const body = {
    salt: exchange.salt,
    ranges: pieces.map((piece, index) => writePiece(piece, pieces[index - 1])),
  };
  const answer = await exchange.send({
    method: "POST",
    route: ROUTE,
    bytes: new TextEncoder().encode(JSON.stringify(body)),
    policy: "sustained",
    safe: true,
  });
  const endpoint = `POST ${ROUTE}`;
  const read = parseAnswer(reconciledSchema, endpoint, answer);
  const problem = findProblem(pieces, read.differing);
  if (problem !== undefined) throw makeUnreadable(endpoint, answer, problem);
  exchange.start ??= read.position;
  return read;
}

/** What no mirror answers, and what would make the exchange endless. */
function findProblem(pieces: readonly Piece[], differing: readonly Differing[]): string | undefined {
  let [last, isEndless] = [-1, differing.length > 0];
  for (const { range, next, orders = [], gone = [] } of differing) {
    const piece = pieces[range];
    if (piece === undefined || range <= last) return "a range that was not asked for, or twice";
    last = range;
    const from = typeof next === "string" ? readBound(next) : piece.until;
    if (from === undefined || compareBounds(from, piece.since) < 0 || compareBounds(from, piece.until) > 0)
      return "a bound outside its range";
    if (compareBounds(from, piece.since) > 0 || orders.length + gone.length > 0) isEndless = false;
    if (orders.some(({ order }) => tryParseInstant(order.updatedAt) === undefined))
      return "an order without a readable updatedAt";
  }
  return isEndless ? "no range was answered" : undefined;
}

/** Leaves out what the mirror completes. */
function writePiece({ since, until, states, ...sum }: Piece, before: Piece | undefined) {
  const follows = compareBounds(since, before?.until ?? FIRST_BOUND) === 0;
  const isLast = compareBounds(until, LAST_BOUND) === 0;
  return {
    ...(follows ? {} : { since: writeBound(since) }),
    ...(isLast ? {} : { until: writeBound(until) }),
    fingerprint: writeFingerprint(sum),
    ...(states === undefined
      ? {}
      : { states: states.map(({ reference, hash }) => [reference, hash.slice(0, 32)]) }),
  };
}

async function apply({ store, written, removed }: Exchange, differing: readonly Differing[]): Promise<void> {
  // One that has moved to another range of the request comes once, but states of later ranges may be listed, too.
  const orders = new Map<string, StoredOrder>();
  for (const { hash, order } of differing.flatMap((range) => range.orders ?? [])) {
    const { reference, updatedAt } = order;
    orders.set(reference, { reference, version: parseInstant(updatedAt), hash, order: order as Order });
  }
  const gone = differing.flatMap((range) => range.gone ?? []);
  if (orders.size > 0) await store.put([...orders.values()]);
  if (gone.length > 0) await store.remove(gone);
  for (const reference of orders.keys()) written.add(reference);
  for (const reference of gone) removed.add(reference);
}

/** Writes the last state of each order that changed after the start; resolves with how far the store is then. */
async function catchUp(
  { send, store, written, removed }: Exchange,
  start: string,
): Promise<Pick<Reconciliation, "position" | "safeThrough" | "exceptions">> {
  const last = new Map<string, Change>();
  let end = { position: start, safeThrough: null as string | null, exceptions: 0 };
  for await (const { data, next, complete } of readFeedPages(send, start)) {
    for (const change of data) last.set(change.reference, change);
    end = {
      position: next,
      safeThrough: complete?.through ?? null,
      exceptions: complete?.exceptions ?? 0,
    };
  }
  const changes = [...last.values()];
  const gone = changes.filter(({ verdict }) => verdict === "gone").map(({ reference }) => reference);
  const orders = changes.flatMap(({ after }) => (after === null ? [] : [stateOf(after)]));
  if (orders.length > 0) await store.put(orders);
  if (gone.length > 0) await store.remove(gone);
  for (const { reference } of orders) written.add(reference);
  for (const reference of gone) removed.add(reference);
  return end;
}
