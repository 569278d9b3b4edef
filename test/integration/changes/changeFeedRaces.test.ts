import { afterAll, expect, it, onTestFinished } from "vitest";
import { makePool } from "../../../src/database/database.ts";
import { readFeedFence } from "../../../src/changes/changeFeed.sql.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { asPool } from "../../support/servers/asPool.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { readEventStream } from "../../support/http/eventStream.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { addSource, at, makeSnapshot, readAt } from "../../support/mirror/orders.ts";
import { makeTestReport } from "../../support/mirror/report.ts";
import { serve } from "../../support/http/serve.ts";

/** Small by default; FEED_CHANGES=125000 produces more than 100,000 changes in a few minutes. */
const CHANGES = Number(process.env["FEED_CHANGES"] ?? 5_000);
const WRITERS = 8;
const BATCH = 25;
const ORDERS = 300;
const PAUSE_MAX_MS = 8;

interface Seen {
  readonly position: string;
  readonly reference: string;
  readonly revision: number;
}

const { database, pool } = await openTestDatabase({ max: 6, statementTimeoutMs: 20_000 });
let writing = true;

const server = await serve(makeTestReport({ pool }));
await addSource(pool, "live");
afterAll(() => server.close());

const random = (below: number) => Math.floor(Math.random() * below);

/** Commits after a random pause, so that transactions end in a different order than they began. */
async function write(versions: { next: number }): Promise<void> {
  const own = makePool({ url: database.url, purpose: "writer", max: 1, statementTimeoutMs: 20_000 });
  const client = await own.connect();
  const slow = asPool({
    query: async (config: string) => {
      await client.query("begin");
      const result = await client.query(config);
      await systemClock.sleep(random(PAUSE_MAX_MS));
      await client.query("commit");
      return result;
    },
  });
  const apply = makeLiveApply(slow);
  while (versions.next < CHANGES) {
    const snapshots = Array.from({ length: BATCH }, () => {
      versions.next += 1;
      return makeSnapshot({ reference: `R${random(ORDERS)}`, updatedAt: at(versions.next / 1_000) });
    });
    await apply.applyReads({ sourceId: "live", via: "poll", snapshots, time: readAt(0n) });
  }
  client.release();
  await own.end();
}

/** Reads pages of random length and occasionally discards the last one, as a reader does that did not finish processing it. */
async function readPages(): Promise<Seen[]> {
  const seen: Seen[] = [];
  let after = "";
  for (;;) {
    const ended = !writing;
    const response = await fetch(`${server.url}/v1/changes?limit=${1 + random(300)}&after=${after}`);
    const body = (await response.json()) as { data: Seen[]; next: string };
    if (random(5) === 0) continue;
    seen.push(...body.data);
    after = body.next;
    if (ended && body.data.length === 0) return seen;
  }
}

/** Reads the stream; drops the connection after a random number of events and resumes after the last one it took. */
async function readStreams(wanted: () => number): Promise<Seen[]> {
  const seen: Seen[] = [];
  let after = "";
  while (writing || seen.length < wanted()) {
    const abort = new AbortController();
    const headers: Record<string, string> = after === "" ? {} : { "last-event-id": after };
    const response = await fetch(`${server.url}/v1/changes/stream`, { headers, signal: abort.signal });
    let left = 1 + random(400);
    for await (const { id, data } of readEventStream(response)) {
      if (data === undefined) continue;
      seen.push(JSON.parse(data) as Seen);
      after = id!;
      left -= 1;
      if (left === 0 || (!writing && seen.length >= wanted())) break;
    }
    abort.abort();
  }
  return seen;
}

/** The flawed reader: uses the position alone and does not wait for open transactions. */
async function readByPositionAlone(): Promise<Seen[]> {
  const seen: Seen[] = [];
  for (;;) {
    const ended = !writing;
    const { rows } = await pool.query<Seen>(
      "select position, reference, revision from mirror.changes where position > $1 order by position limit 300",
      [seen.at(-1)?.position ?? 0],
    );
    seen.push(...rows);
    if (ended && rows.length === 0) return seen;
  }
}

function expectOrderPerOrder(seen: readonly Seen[]): void {
  const revisions = new Map<string, number>();
  const misplaced = seen.filter(({ reference, revision }) => {
    const before = revisions.get(reference) ?? 0;
    revisions.set(reference, revision);
    return revision !== before + 1;
  });
  expect(misplaced).toEqual([]);
}

it(
  "every change is read once, in sequence per order, while eight writers commit at random; reading by position alone loses some",
  async () => {
    const versions = { next: 0 };
    let total = Infinity;
    const readers = [
      readPages(),
      readPages(),
      readStreams(() => total),
      readStreams(() => total),
      readStreams(() => total),
    ];
    const flawed = readByPositionAlone();
    await Promise.all(Array.from({ length: WRITERS }, () => write(versions)));
    const { rows } = await pool.query<{ total: string }>("select count(*) as total from mirror.changes");
    total = Number(rows[0]!.total);
    writing = false;
    for (const seen of await Promise.all(readers)) {
      expect(seen.length).toBe(total);
      expect(new Set(seen.map(({ position }) => position)).size).toBe(total);
      expectOrderPerOrder(seen);
    }
    const kept = new Set((await flawed).map(({ position }) => position)).size;
    expect(kept).toBeLessThan(total);
    if (process.env["FEED_CHANGES"] !== undefined)
      process.stderr.write(`${total} changes; by position alone ${total - kept} lost\n`);
  },
  Math.max(120_000, CHANGES * 20),
);

it("the fence stays before a position that is taken while the locks are read", async () => {
  const client = await pool.connect();
  onTestFinished(() => client.release(true));
  await client.query("begin");
  const newest = await readFeedFence(client);
  // Another transaction takes a position just after the locks were read, as these show none of it.
  await client.query(`
    create or replace function mirror.feed_writers() returns table (pid integer, after_position_bits bigint)
    language plpgsql volatile as $$
    begin
      perform nextval('mirror.changes_position_seq');
    end $$`);
  expect(await readFeedFence(client)).toBe(newest);
  expect(await readFeedFence(client)).toBe(newest + 1n);
});
