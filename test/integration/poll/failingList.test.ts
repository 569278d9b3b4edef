import { describe, expect, it, vi } from "vitest";
import { ProviderError } from "../../../src/provider/errors.ts";
import type { WindowPage } from "../../../src/domain/source/orderSource.ts";
import { requestPeriod } from "../../../src/poll/periodRequests.sql.ts";
import { requestRefetches } from "../../../src/poll/refetches.sql.ts";
import { openPolledMirror, poll, pollUntil } from "../../support/mirror/livePoller.ts";
import { secondsAgo } from "../../support/providers/memoryProvider.ts";

const { provider, pool, read, makeSut } = await openPolledMirror({ marginSeconds: 1, backfillSince: "PT2M" });

const countOrders = async (pattern: string) =>
  (await read("select from mirror.orders where reference like $1", [pattern])).length;
const makeUnavailable = () => new ProviderError("answered with 500", { failure: "unavailable", status: 500 });

/** Answers otherwise whenever the order would be on the page. */
function breakPagesWith(updatedAt: bigint, answer: (page: WindowPage) => WindowPage): void {
  const listWindow = provider.listWindow.bind(provider);
  vi.spyOn(provider, "listWindow").mockImplementation(async (query, options) => {
    const page = await listWindow(query, options);
    const versions = page.elements.map((one) => (one.kind === "order" ? one.snapshot.version : 0n));
    return versions.includes(updatedAt) ? answer(page) : page;
  });
}

const FAULTS: readonly [string, (page: WindowPage) => WindowPage, RegExp][] = [
  [
    "answers with 500",
    () => {
      throw makeUnavailable();
    },
    /^answered with 500$/,
  ],
  [
    "promises orders and lists none",
    (page) => ({ ...page, elements: [], hasMore: true }),
    /does not list them/,
  ],
];

describe("a window that the list cannot serve", () => {
  it.each(FAULTS)(
    "is left out where it %s: later orders are proved, and it is named",
    async (_, fault, error) => {
      // Six seconds later the head sweep begins behind it, as nothing is proved that reaches further back.
      const poisoned = secondsAgo(54);
      provider.put("BEFORE", secondsAgo(58));
      provider.put("POISON", poisoned);
      for (let order = 0; order < 20; order += 1) provider.put(`LATER${order}`, secondsAgo(4 - order / 10));
      breakPagesWith(poisoned, fault);
      const poller = makeSut();
      await requestRefetches(pool, {
        sourceId: "live",
        references: ["BEFORE"],
        reason: "requested by a person",
      });
      expect(await poll(poller)).toMatchObject({ refetches: 1 });
      await pollUntil(poller, async () => (await countOrders("LATER%")) === 20);
      const isProvedAndNamed = async () => {
        const [found] = await read(
          `select from mirror.proved p join mirror.poll_state s using (source_id)
           where p.since > $1 and unserved_since is not null`,
          [poisoned],
        );
        return found !== undefined;
      };
      await pollUntil(poller, isProvedAndNamed);
      const unserved = await read(
        `select unserved_since <= $1 and unserved_until > $1 as includes, unserved_error as error,
         coalesce(safe_through > $1, false) as claims from mirror.poll_state`,
        [poisoned],
      );
      expect(unserved).toEqual([{ includes: true, error: expect.stringMatching(error), claims: false }]);
    },
  );
});

it("an outage of the whole list leaves out no window, and costs a few requests a cycle", async () => {
  const poller = makeSut();
  await poll(poller);
  provider.put("LATER", secondsAgo(0));
  const period = { since: secondsAgo(7_200), until: secondsAgo(7_100) };
  await requestPeriod(pool, { kind: "backfill", sourceId: "live", ...period });
  const away = () => {
    throw makeUnavailable();
  };
  provider.before = away;
  const begun = provider.reads.length;
  const readState = () => read("select polled_through, unserved_since, last_error from mirror.poll_state");
  const before = await readState();
  for (let cycle = 0; cycle < 5; cycle += 1) expect(await poll(poller)).toMatchObject({ outcome: "failed" });
  expect(await readState()).toEqual([{ ...before[0], last_error: "answered with 500" }]);
  // Of each of three sweeps its window, unchanged, and once the minute to come.
  const asked = provider.reads.slice(begun).map(({ query }) => query);
  const windows = asked.filter(({ limit }) => limit > 1);
  expect(windows.length).toBeLessThanOrEqual(5 * 3);
  expect(new Set(windows.map(({ since }) => since)).size).toBeLessThanOrEqual(3);
  expect(asked.length - windows.length).toBeLessThanOrEqual(5);
  provider.before = () => undefined;
  await pollUntil(poller, async () => (await countOrders("LATER")) === 1);
  expect(await readState()).toMatchObject([{ unserved_since: null, last_error: null }]);
  // The pauses begin anew.
  provider.before = away;
  expect((await poll(poller)).waitMs).toBeLessThanOrEqual(50);
});

it("one failed request costs one request, as often as others come between: the walk goes on where it was", async () => {
  provider.limitMax = 10;
  const poller = makeSut({ backfillSince: "PT10S", marginSeconds: 60 });
  await poll(poller);
  for (let order = 0; order < 60; order += 1) provider.put(`R${order}`, secondsAgo(3 - order / 100));
  const begun = provider.reads.length;
  provider.before = () => {
    if ([4, 8].includes(provider.reads.length - begun)) throw makeUnavailable();
  };
  await pollUntil(poller, async () => (await countOrders("R%")) === 60);
  const offsets = provider.reads.slice(begun, begun + 9).map(({ query }) => query.offset);
  const steps = offsets.slice(1).map((offset, index) => Math.sign(offset - offsets[index]!));
  expect(steps).toEqual([1, 1, 1, 0, 1, 1, 1, 0]);
});

it.each([
  ["before its margin has passed", 60, null],
  ["while the clocks differ", 1, 61],
])("a window that was read %s is no proof, whoever chose it", async (_, marginSeconds, disagreement) => {
  const providerClock = { ...provider.providerClock, disagreementSeconds: () => disagreement };
  const poller = makeSut({ client: { ...provider, providerClock }, marginSeconds });
  await poll(poller);
  // As a process left it whose margin was shorter.
  await pool.query(
    `insert into mirror.period_requests (source_id, kind, since, until, read_down_to, state, started_at)
     values ('live', 'backfill', $1, $2, $2, 'running', now())`,
    [secondsAgo(20), secondsAgo(10)],
  );
  const readUnproved = () => read("select unproved from mirror.period_requests where read_down_to <= since");
  await pollUntil(poller, async () => (await readUnproved()).length > 0);
  expect(await readUnproved()).toEqual([{ unproved: 1 }]);
  expect(await read("select from mirror.coverage where sweep = 'backfill'")).toEqual([]);
});

it("asks for shorter pages once an answer had too many bytes, and for no longer ones afterwards", async () => {
  const listWindow = provider.listWindow.bind(provider);
  vi.spyOn(provider, "listWindow").mockImplementation(async (query, options) => {
    const page = await listWindow(query, options);
    if (page.elements.length > 30) throw new ProviderError("too many bytes", { failure: "too_large" });
    return page;
  });
  for (let order = 0; order < 300; order += 1) provider.put(`R${order}`, secondsAgo(50 - order / 10));
  const poller = makeSut({ marginSeconds: 3 });
  await pollUntil(poller, async () => (await countOrders("R%")) === 300);
  const limits = provider.reads.map(({ query }) => query.limit);
  expect(limits.filter((limit) => limit > 25)).toEqual([200, 100, 50]);
  expect(limits.at(-1)).toBe(25);
});
