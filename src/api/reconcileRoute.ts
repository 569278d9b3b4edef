import type { ServerResponse } from "node:http";
import express from "express";
import { readFeedTail } from "../changes/feedReader.ts";
import { writeFeedCursor } from "../changes/feedCursor.ts";
import type { Pool, Queryable } from "../database/database.ts";
import { beginSnapshot } from "../database/snapshot.sql.ts";
import { onConnection } from "../database/transaction.ts";
import type { Authenticate } from "../http/authenticate.ts";
import { readOrUnavailable, readWith, sendJson } from "../http/respond.ts";
import type { Route } from "../http/route.ts";
import { writeFreshness } from "../orders/freshness.ts";
import { refuseWait } from "../orders/orderWait.ts";
import { selectFreshness } from "../orders/orderReads.sql.ts";
import { findDifferences, sumRanges } from "../orders/reconcile.sql.ts";
import type { RangeDifference } from "../orders/reconcile.sql.ts";
import { ASSUMED_CODES } from "../wire/api.ts";
import { completeRanges, LISTED_MAX, reconcileSchema, RECONCILE_BYTES_MAX } from "../wire/reconcile.ts";
import type { AskedRange } from "../wire/reconcile.ts";
import { RefusedRequestError } from "../wire/refusal.ts";
import { writeBound, writeFingerprint } from "../wire/stateRange.ts";

interface RouteDeps {
  /** Must read from the primary: a replica may lack changes before the position. */
  readonly pool: Pool;
  readonly authenticate: Authenticate;
}

interface Asked {
  readonly sourceId: string;
  readonly salt: string;
  readonly ranges: readonly AskedRange[];
}

/** Requests of one source, and of all, that wait or are being read: each holds a body in memory. */
const WAITING_OF_SOURCE_MAX = 4;
const WAITING_MAX = 16;
const parseJson = express.json({ limit: RECONCILE_BYTES_MAX, type: () => true });

/**
 * POST /v1/reconcile: which ranges of the reader's orders differ from the mirror's, and how those differ whose states
 * the reader lists. All of an answer is read in one snapshot, which has every change up to `position` and every change
 * before `X-Safe-Through`.
 *
 * A range over all orders reads them all, so one request at a time uses the database. 400 for a body of another form, and
 * 503 too_many_waits if too many are waiting already.
 */
export function makeReconcile({ pool, authenticate }: RouteDeps): Route {
  let turn = Promise.resolve();
  const waiting: string[] = [];
  return async (request, response) => {
    const sourceId = authenticate(request);
    const own = waiting.filter((each) => each === sourceId).length;
    if (own >= WAITING_OF_SOURCE_MAX || waiting.length >= WAITING_MAX) throw refuseWait();
    waiting.push(sourceId);
    try {
      const asked = { sourceId, ...parseBody(await readWith(parseJson, request, response)) };
      const answered = turn.then(async () => {
        if (!response.destroyed) await answer(response, { pool, asked });
      });
      turn = answered.catch(() => undefined);
      await answered;
    } finally {
      waiting.splice(waiting.indexOf(sourceId), 1);
    }
  };
}

async function answer(
  response: ServerResponse,
  { pool, asked }: { pool: Pool; asked: Asked },
): Promise<void> {
  // Before the snapshot, so that nothing is between the two.
  const position = writeFeedCursor(await readFeedTail(pool, asked.sourceId));
  const read = onConnection(pool, async (client) => {
    await beginSnapshot(client);
    const freshness = await selectFreshness(client, asked.sourceId);
    const sums = await sumRanges(client, asked);
    const differing = asked.ranges.flatMap((range, index) => {
      const fingerprint = writeFingerprint(sums[index] ?? NOTHING);
      return fingerprint === range.fingerprint ? [] : [{ range, index, fingerprint }];
    });
    const lists = differing.flatMap(({ range }) => (isList(range) ? [range] : []));
    const differences = lists.length === 0 ? [] : await compareLists(client, { ...asked, lists });
    await client.query("commit");
    return { freshness, differing, differences: differences.values() };
  });
  const { freshness, differing, differences } = await readOrUnavailable(read);
  writeFreshness(response, freshness);
  const parts = differing.map(({ range, index, fingerprint }) => {
    if (!isList(range)) return `{"range":${index},"fingerprint":"${fingerprint}"}`;
    return `{"range":${index},${writeDifference(differences.next().value)}}`;
  });
  sendJson(response, `{"position":${JSON.stringify(position)},"differing":[${parts.join(",")}]}`);
}

const NOTHING = { count: 0, sum: 0n };

type List = AskedRange & { readonly states: object };

function isList(range: AskedRange): range is List {
  return range.states !== undefined;
}

interface Compared extends RangeDifference {
  /** Of the part of the range that is answered. */
  readonly fingerprint: string;
}

async function compareLists(
  client: Queryable,
  { sourceId, salt, lists }: Omit<Asked, "ranges"> & { lists: readonly List[] },
): Promise<Compared[]> {
  const differences = await findDifferences(client, { sourceId, lists });
  const answered = lists.map(({ since, until }, index) => ({
    since,
    until: differences[index]?.next ?? until,
  }));
  const sums = await sumRanges(client, { sourceId, salt, ranges: answered });
  return differences.map((difference, index) => ({
    ...difference,
    fingerprint: writeFingerprint(sums[index] ?? NOTHING),
  }));
}

/** Orders are the provider's unchanged texts. */
function writeDifference(difference: Compared | undefined): string {
  if (difference === undefined) throw new TypeError("every list has a difference");
  const { fingerprint, orders, gone, next } = difference;
  const texts = orders.map(({ hash, raw }) => `{"hash":"${hash}","order":${raw}}`).join(",");
  const end = JSON.stringify(next === null ? null : writeBound(next));
  return `"fingerprint":"${fingerprint}","orders":[${texts}],"gone":${JSON.stringify(gone)},"next":${end}`;
}

function parseBody(body: unknown): Pick<Asked, "salt" | "ranges"> {
  const result = reconcileSchema.safeParse(body);
  if (!result.success) {
    const [issue] = result.error.issues;
    throw refuseBody(`${describePath(issue?.path ?? [])} must be ${issue?.message}.`);
  }
  const ranges = completeRanges(result.data.ranges);
  if (typeof ranges === "number")
    throw refuseBody(
      `ranges[${ranges}] must begin before it ends, and not before the end of the one before.`,
    );
  const listed = ranges.reduce((sum, { states = [] }) => sum + states.length, 0);
  if (listed > LISTED_MAX) throw refuseBody(`ranges must be of at most ${LISTED_MAX} states in all.`);
  return { salt: result.data.salt, ranges };
}

function describePath(path: readonly PropertyKey[]): string {
  const text = path.map((part) => (typeof part === "number" ? `[${part}]` : `.${String(part)}`)).join("");
  return text === "" ? "The body" : text.slice(1);
}

function refuseBody(message: string): RefusedRequestError {
  return new RefusedRequestError({ status: 400, code: ASSUMED_CODES.invalidRequest, message });
}
