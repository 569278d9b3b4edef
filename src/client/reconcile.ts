import { randomBytes } from "node:crypto";
import type { z } from "zod";
import { OrderMirrorError } from "../domain/errors.ts";
import { parseInstant } from "../domain/order/instant.ts";
import type { OrderState } from "../domain/order/order.ts";
import type { ProviderAnswer, ProviderRequest } from "../provider/http/request.ts";
import { parseAnswer } from "../provider/orderAnswer.ts";
import { LISTED_MAX, RANGES_MAX, reconciledSchema } from "../wire/reconcile.ts";
import {
  compareBounds,
  FIRST_BOUND,
  LAST_BOUND,
  readBound,
  writeBound,
  writeFingerprint,
} from "../wire/stateRange.ts";
import type { RangeSum, StateBound, StateRange } from "../wire/stateRange.ts";
import { readFreshness } from "./answers.ts";
import type { Freshness, Order } from "./answers.ts";
import type { Change } from "./change.ts";
import type { Connection } from "./connection.ts";
import { readFeedPages } from "./feedPages.ts";
import { stateOf, sumStates } from "./orderStore.ts";
import type { OrderStore, StoredOrder } from "./orderStore.ts";

/** What a reconciliation did. The store now equals the mirror at `position`; see docs/client.md. */
export interface Reconciliation extends Freshness {
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
/** What the mirror reads in about a second: more must not be compared with one request. */
const STATES_MAX = 1_000_000;
const WHOLE: StateRange = { since: FIRST_BOUND, until: LAST_BOUND };
const ROUTE = "/v1/reconcile";

/** A range of one request. */
interface Piece extends StateRange, RangeSum {
  /** What the store has in it, if the mirror is asked for the differences. */
  readonly states: readonly OrderState[] | undefined;
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
  const position = await catchUp(exchange, start.position);
  const { written, removed } = exchange;
  return { ...start, position, written: written.size, removed: removed.size, ...cost };
}

interface Exchange {
  readonly send: Send;
  readonly store: OrderStore;
  readonly salt: string;
  readonly written: Set<string>;
  readonly removed: Set<string>;
  /** Of the first answer. */
  start: (Freshness & { readonly position: string }) | undefined;
}

/** Compares these ranges, which are ascending; resolves with those of the next level. */
async function compareLevel(exchange: Exchange, level: readonly StateRange[]): Promise<StateRange[]> {
  const next: StateRange[] = [];
  let rest = level;
  while (rest.length > 0) {
    // As many as fit if all of them are cut or listed.
    const taken = rest.slice(0, Math.floor(RANGES_MAX / PARTS));
    rest = rest.slice(taken.length);
    for (const pieces of batch(await makePieces(exchange, taken)))
      next.push(...(await comparePieces(exchange, pieces)));
  }
  return next;
}

/** Cuts large ranges and lists small ones. */
async function makePieces({ store, salt }: Exchange, ranges: readonly StateRange[]): Promise<Piece[]> {
  const cuts = await store.cuts(ranges, PARTS);
  const isSmall = (index: number) => cuts[index]?.length === 0;
  const small = ranges.filter((_, index) => isSmall(index));
  const listed = small.length === 0 ? [] : await store.states(small);
  const pieces = ranges.flatMap((range, index) => divide(range, cuts[index] ?? []));
  const large = ranges.flatMap((range, index) => (isSmall(index) ? [] : divide(range, cuts[index] ?? [])));
  const sums = large.length === 0 ? [] : await store.sums(large, salt);
  const [nextList, nextSum] = [listed.values(), sums.values()];
  const smallSet = new Set(small);
  return pieces.map((piece) => {
    if (!smallSet.has(piece)) return { ...piece, ...(nextSum.next().value ?? NOTHING), states: undefined };
    const states = nextList.next().value ?? [];
    return { ...piece, count: states.length, sum: sumStates(states, salt), states };
  });
}

const NOTHING: RangeSum = { count: 0, sum: 0n };

/** The parts between the cuts; the range itself without cuts. */
function divide(range: StateRange, cuts: readonly StateBound[]): StateRange[] {
  if (cuts.length === 0) return [range];
  const bounds = [range.since, ...cuts, range.until];
  return bounds.slice(1).map((until, index) => ({ since: bounds[index] ?? range.since, until }));
}

/** Pieces for one request each. */
function* batch(pieces: readonly Piece[]): Generator<Piece[], void, void> {
  let taken: Piece[] = [];
  let [states, listed] = [0, 0];
  for (const piece of pieces) {
    const more = piece.states?.length ?? 0;
    const isFull = states + piece.count > STATES_MAX || listed + more > LISTED_MAX;
    if (taken.length > 0 && (isFull || taken.length === RANGES_MAX)) {
      yield taken;
      taken = [];
      [states, listed] = [0, 0];
    }
    taken.push(piece);
    states += piece.count;
    listed += more;
  }
  if (taken.length > 0) yield taken;
}

/** Asks about pieces and applies the differences; resolves with the ranges that are still to be compared. */
async function comparePieces(exchange: Exchange, pieces: readonly Piece[]): Promise<StateRange[]> {
  const answer = await ask(exchange, pieces);
  const found = answer.differing.map((differing) => {
    const piece = pieces[differing.range];
    if (piece === undefined)
      throw new TypeError("the mirror answered about a range that it was not asked for");
    return { piece, differing };
  });
  await apply(exchange, answer.differing);
  const listed = found.filter(({ piece }) => piece.states !== undefined);
  // If the answer is cut, a range may lack an order that is listed in a later one.
  if (listed.every(({ differing }) => (differing.next ?? null) === null)) await verify(exchange, listed);
  return found.flatMap(({ piece: { since, until, states }, differing: { next } }) => {
    if (states === undefined) return [{ since, until }];
    const from = next === null || next === undefined ? undefined : readBound(next);
    return from === undefined || compareBounds(from, until) >= 0 ? [] : [{ since: from, until }];
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
  const read = parseAnswer(reconciledSchema, `POST ${ROUTE}`, answer);
  exchange.start ??= { position: read.position, ...readFreshness(answer) };
  return read;
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

/** The store must now have exactly what the mirror had in these ranges. */
async function verify(
  { store, salt }: Exchange,
  listed: readonly { readonly piece: StateRange; readonly differing: Differing }[],
): Promise<void> {
  if (listed.length === 0) return;
  const sums = await store.sums(
    listed.map(({ piece }) => piece),
    salt,
  );
  if (
    listed.every(({ differing }, index) => writeFingerprint(sums[index] ?? NOTHING) === differing.fingerprint)
  )
    return;
  throw new StoreDiffersError("the store does not have the orders that it was given", {
    fix: "Let no other program write to it meanwhile, and let put() replace orders by reference and keep their hash.",
  });
}

/** Writes the last state of each order that changed after a position; resolves with the position behind them. */
async function catchUp({ send, store, written, removed }: Exchange, start: string): Promise<string> {
  const last = new Map<string, Change>();
  let position = start;
  for await (const { data, next } of readFeedPages(send, start)) {
    for (const change of data) last.set(change.reference, change);
    position = next;
  }
  const gone = [...last.values()]
    .filter(({ verdict }) => verdict === "gone")
    .map(({ reference }) => reference);
  const orders = [...last.values()].flatMap(({ after }) => (after === null ? [] : [stateOf(after)]));
  if (orders.length > 0) await store.put(orders);
  if (gone.length > 0) await store.remove(gone);
  for (const { reference } of orders) written.add(reference);
  for (const reference of gone) removed.add(reference);
  return position;
}
