import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { printStatus } from "../../../src/cli/commands/status.ts";
import type { Facts } from "../../../src/health/conditions/conditions.ts";
import type { Standing } from "../../../src/health/conditions/standing.ts";
import { judge } from "../../../src/health/judge.ts";
import { renderFreshness } from "../../../src/ops/phrases.ts";
import { renderPage, type Viewer } from "../../../src/ops/page.ts";
import { renderDelivery, readMoment } from "../../../src/ops/orders/delivery.ts";
import { renderOverview, type Overview } from "../../../src/ops/overview.ts";
import { ago, CANCELLED_DELIVERY, makeFacts, makeSourceFacts } from "../../support/pages/facts.ts";

/** The page's text as a person reads it, without what only screen readers and tabs have. */
function read(page: string): string {
  const text = page
    .replace(/<head>[^]*<\/head>/, "")
    .replace(/<p id="verdict-words"[^]*?<\/p>/, "")
    .replaceAll(/<[^>]+>/g, " ")
    .replaceAll(/&nbsp;|\u00a0/g, " ");
  return text.replaceAll(/\s+/g, " ").replaceAll("&#39;", "'").replaceAll("&quot;", '"');
}
const OPERATOR: Viewer = { role: "operator", person: null };
const VIEWER: Viewer = { ...OPERATOR, role: "viewer" };

/** The overview of one healthy source, some of whose facts are replaced, and some of the mirror's. */
function collect(source: Partial<Standing> = {}, change: Partial<Facts> = {}): Overview {
  const facts = makeFacts(source, change);
  return { facts, ...judge(facts), rateUsed: new Map([["live", 0.124]]) };
}
const render = (overview: Overview, viewer = OPERATOR) =>
  renderPage(renderOverview(overview, viewer), viewer);
const show = (source: Partial<Standing> = {}, change: Partial<Facts> = {}) =>
  read(render(collect(source, change)));
/** A source of which nothing is known yet. */
const NEW: Partial<Standing> = {
  createdAt: ago(60),
  safeThrough: null,
  historySince: null,
  polledThrough: null,
  lastCycleEndedAt: null,
  lastEventAt: null,
};

const OVER = { name: "OrderMirrorEventsWait", subject: "live", since: ago(900), endedAt: ago(300) };

describe("the overview", () => {
  it.each<[string, Partial<Standing>, RegExp, Partial<Facts>?]>([
    [
      "all is good",
      {},
      /✔ All good\. Complete up to 09:59 \(1 min 10 s ago\)\. Fresh\? ✔ Up to date .* Lost\? ✔ Webhooks arrive none of 400 missed in 24 h Stuck\? .* Able to catch up\? ✔ Yes no backlog; 87 % of the request rate free/,
    ],
    ["a source is new", NEW, /… Starting: live not verified yet\. Fresh\? … Starting/],
    [
      "it is as old as it may be",
      { safeThrough: ago(490) },
      /✔ Up to date complete up to 8 min 10 s ago; 5 min of it are the margin/,
    ],
    [
      "the margin was raised lately",
      { marginSeconds: 540 },
      /Up to date complete up to 1 min 10 s ago Lost\?/,
    ],
    ["the margin is a day", { marginSeconds: 86_400, safeThrough: ago(86_500) }, /✔ All good\./],
    ["it is older", { safeThrough: ago(491) }, /… Fresh\? Behind: complete up to 8 min 11 s ago/],
    [
      "polling catches up",
      { safeThrough: ago(1_800) },
      /… Watching: Data of live may be missing since 2025-11-20 09:30:30 \. Between us and the provider since 2025-11-20 09:38:40 \(21 min 50 s; alerts at 1 h\)\. order-mirror doctor .* Fresh\? … Behind/,
    ],
    [
      "events wait",
      { pending: 500, oldestPendingAt: ago(15) },
      /… Able to catch up\? Has a backlog: backlog: 500 events/,
    ],
    [
      "a person paused polling",
      { pausedAt: ago(900), leader: null, leaderlessSince: ago(900) },
      /▲ Polling of live is paused\. On our side since .* Resume with order-mirror source resume live ;.* Details Resume polling/,
    ],
    ["no event has come", { lastEventAt: null }, /Lost\? … No webhook of live yet .* never arrived/],
    [
      "a source is polled only",
      { configured: false, lastEventAt: null },
      /All good.* Lost\? ✔ Polled only .* polled only/,
    ],
    [
      "webhooks come to a source without a secret",
      { configured: false, lastEventAt: null, withoutSecret: 5, firstWithoutSecretAt: ago(90) },
      /✖ Every webhook of live is answered 404 \(5 calls\): .* Lost\? ✖ No secret .* ✖ no secret/,
    ],
    [
      "a third of the webhooks is lost",
      { announced: 100, lost: 45, firstLostAt: ago(1_200) },
      /▲ 31\.0 % of the events of live were lost within a day \(45 of 145\)\. .*Polling has repaired the affected orders\..* Lost\? ▲ Some missed/,
    ],
    [
      "three problems are there, the newest of the worst first",
      {
        pending: 1,
        oldestPendingAt: ago(900),
        leader: null,
        leaderlessSince: ago(180),
        quarantined: 2,
        oldestQuarantinedAt: ago(9_000),
      },
      /✖ No poller runs for live\. and 2 more .* Stuck\? ✖ Events wait 1 waiting, 2 in quarantine Able to catch up\? ✖ No poller live: no poller leads.* ✖ 1 event of live waiting.* ▲ 2 events or reads of live could not be processed/,
    ],
    [
      "data are old",
      {
        polledThrough: ago(960),
        safeThrough: ago(980),
        trouble: "away",
        lastError: "x",
        failingSince: ago(950),
      },
      /Fresh\? ▲ Data is old complete up to 16 min 20 s ago; 5 min of it are the margin Lost\? … Not known now/,
    ],
    [
      "orders are excepted",
      { exceptions: 2, oldestExceptionAt: ago(9) },
      /All good\. Complete up to .* \(1 min 10 s ago\), except for 2 orders\./,
    ],
    [
      "a mirror is empty",
      { hasOrders: false, lastEventAt: null, announced: 0 },
      /live : no order has changed since 2025-10-21 10:00:30 ; read again every 30 s; enter this host with \/webhooks\/live as its webhook address/,
    ],
    [
      "an empty mirror's history was not read whole",
      { hasOrders: false, safeThrough: null, lastEventAt: null },
      /live : its history is being read; enter this host/,
    ],
    [
      "something is over, and for how long it lasted",
      {},
      /✔ All good\..*Resolved within a day ✔ An event has waited for 6 minutes: .* \(live\) resolved 2025-11-20 09:55 , lasted 10 min 0 s Sources/,
      { recorded: [OVER, { ...OVER, subject: "test", endedAt: null }] },
    ],
    [
      "something still happens, before what is over but counted, and when that goes away",
      { trouble: "away", lastError: "502", failingSince: ago(700) },
      /^.*▲ Polls of live get no usable answer.*▲ Jobs of the queue apply failed.*It goes away by itself 15 minutes after the last failure\./,
      { queues: [{ name: "apply", problems: [], newestDeadAt: ago(60) }] },
    ],
    [
      "nobody knows when something began: since when it was recorded",
      {},
      /▲ Redis is away\. On our side seen since 2025-11-20 09:53:50 \(6 min 40 s\)/,
      {
        queues: [{ name: "apply", problems: [{ problem: "Redis is away.", fix: "" }], newestDeadAt: null }],
        recorded: [{ name: "OrderMirrorQueueAway", subject: "apply", since: ago(400), endedAt: null }],
      },
    ],
  ])("says so when %s", (_when, source, expected, change) => {
    expect(show(source, change)).toMatch(expected);
  });

  it("makes one problem of one cause, with each source folded", () => {
    const sources = Array.from({ length: 200 }, (_, n) =>
      makeSourceFacts({ sourceId: `org-${n}`, leader: null, leaderlessSince: ago(180 + n) }),
    );
    const overview = collect({}, { sources });
    const { title } = renderOverview(overview, VIEWER);
    expect(title).toBe("No poller leads, so nothing is polled: 200 sources.");
    const text = read(render(overview));
    expect(text).toMatch(
      /✖ No poller leads, so nothing is polled: 200 sources\. On our side since 2025-11-20 09:54:11/,
    );
    expect(text.match(/Start order-mirror poller/g)).toHaveLength(1);
    expect(render(overview)).toMatch(/<details>\s*<summary>All 200<\/summary>/);
    expect(render(overview)).toContain('<a href="/ops#sources">Details</a>');
  });

  it("leads from one source's problem to what concerns that source", () => {
    const called = { configured: false, withoutSecret: 5, firstWithoutSecretAt: ago(90) };
    const markup = render(collect({ ...called, leader: null, leaderlessSince: ago(180) }));
    expect(markup).toContain('<a href="/ops/calls?kind=webhook&amp;source=live">Details</a>');
    expect(markup).toContain('<a href="/ops/sources/live">Details</a>');
  });

  it("speaks of the source that is furthest behind", () => {
    const slow = { sourceId: "slow", safeThrough: ago(130), polledThrough: ago(20), marginSeconds: 60 };
    for (const places of [0, 1]) {
      const sources = [makeSourceFacts(), makeSourceFacts(slow)];
      if (places === 1) sources.reverse();
      expect(show({}, { sources })).toMatch(
        /Complete up to 09:58 \(2 min 10 s ago\)\..* complete up to 2 min 10 s ago; 1 min of it are the margin/,
      );
      expect(read(renderFreshness(sources).markup)).toContain(
        "Data of all 2 sources up to 2025-11-20 10:00 (20 s ago)",
      );
    }
  });

  it("is neither good nor bad without a source", () => {
    const page = renderOverview(collect({}, { sources: [] }), VIEWER);
    expect([page.mood, page.title]).toEqual(["neither", "No source"]);
    expect(page.body.markup).toMatch(/class="neither"[^]*none is configured yet/);
  });

  it("links each figure of a source to what is behind it", () => {
    const markup = render(collect());
    for (const page of ["waiting", "quarantine", "lost", "walks", "calls"])
      expect(markup).toContain(`href="/ops/${page}?source=live"`);
    expect(markup).toContain('href="/ops/sources/live"');
  });
});

describe("no two statements about a source contradict each other", () => {
  const seconds = fc.oneof(fc.integer({ min: 0, max: 600 }), fc.integer({ min: 600, max: 100_000 }));
  const at = seconds.map(ago);
  const orNull = <Value>(value: fc.Arbitrary<Value>) => fc.oneof(fc.constant(null), value);
  /** Facts that belong together, each of them as if nothing was wrong, or wrong. */
  const aspects = [
    fc.record({ safeThrough: orNull(at) }),
    fc.record({ polledThrough: orNull(at), lastCycleEndedAt: at }),
    fc.record({ pausedAt: at, leader: fc.constant(null), leaderlessSince: at }),
    fc.record({ leader: fc.constant(null), leaderlessSince: at }),
    fc.record({
      trouble: fc.constantFrom("away", "slow", "key_refused", "rate_limited", "other"),
      failingSince: at,
      lastError: fc.constant("GET /v1/orders failed"),
    }),
    fc.record({ pending: fc.integer({ min: 1, max: 500 }), oldestPendingAt: at }),
    fc.record({ quarantined: fc.integer({ min: 1, max: 9 }), oldestQuarantinedAt: at }),
    fc.record({
      lost: fc.oneof(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 5, max: 900 })),
      firstLostAt: at,
    }),
    fc.record({ lostSinceLastEvent: fc.integer({ min: 1, max: 9 }), firstLostSinceLastEventAt: at }),
    fc.record({
      refusedSinceLastEvent: fc.integer({ min: 1, max: 99 }),
      foundSinceRefused: fc.integer({ min: 0, max: 2 }),
      firstRefusedAt: at,
    }),
    fc.record({
      configured: fc.constant(false),
      withoutSecret: fc.integer({ min: 0, max: 9 }),
      firstWithoutSecretAt: at,
    }),
    fc.record({ lastEventAt: orNull(at) }),
  ] as readonly fc.Arbitrary<Partial<Standing>>[];
  const standings = fc
    .tuple(...aspects.map((aspect) => fc.option(aspect, { freq: 3, nil: {} })))
    .map((parts) => makeSourceFacts(Object.assign({}, ...parts) as Partial<Standing>));
  const deliveries = fc.record({
    settled: fc.boolean(),
    goneAt: orNull(at),
    realDeliveryTime: orNull(at),
    deliveryTime: orNull(at),
    status: fc.constantFrom("created", "picked_up", "cancelled", "delivered"),
  });

  /** What `status` prints. */
  function print(standing: Standing): string {
    const facts = makeFacts(standing);
    const lines: string[] = [];
    const write = vi
      .spyOn(process.stdout, "write")
      .mockImplementation((text) => lines.push(String(text)) > 0);
    try {
      printStatus(
        { facts, ...judge(facts) },
        () => 1,
        (_style, text) => text,
      );
    } finally {
      write.mockRestore();
    }
    return lines.join("");
  }

  const OLD = /▲ (?:Data up to|Nothing was read)/;
  const WRONG = /[✖▲] |Watching:|Starting:/;
  /** What must not stand together on the overview, on a page of orders, or on an order's page of one source. */
  const PAIRS: readonly (readonly [RegExp, RegExp])[] = [
    [/All good/, WRONG],
    [/All good/, OLD],
    [/✔ Up to date/, OLD],
    [/✔ Up to date/, /Data of live may be missing|Nothing of live has been verified/],
    [/(?:refused|answered 404) \(\d+ calls?\)/, /Webhooks arrive|Polled only| working /],
    [/Webhooks arrive/, /all refused|no secret|✖ stopped/],
    [/none of \d+ missed/, /some missed|were lost within|Webhooks (?:refused|stopped|fail)|✖ No secret/],
    [/Nothing stuck/, /No worker is keeping up\. On our side since|could not be processed/],
    [/✔ Yes/, /No poller runs|is paused|get no usable answer|refuses the API key/],
    [/The provider no longer has this order/, /Verified with|Not yet verified| late /],
    [/✔ All good\./, /… (?:Watching|Behind|Starting)|critical:|warning:|Behind:|Starting: /],
    [/✔ Webhooks arrive|✔ Polled only/, /(?:stopped|every call is (?:refused|answered 404)): /],
    [/unknown since/, /✔ on time/],
  ];

  it("as a table of pairs says, for any standing", () => {
    fc.assert(
      fc.property(standings, deliveries, (standing, order) => {
        const overview = collect(standing);
        const main = read(render(overview));
        const [worst] = overview.holding;
        const { mood } = renderOverview(overview, VIEWER);
        expect(mood).toBe(worst?.condition.severity ?? mood);
        const moment = readMoment(makeFacts(standing));
        const delivery = { ...CANCELLED_DELIVERY, ...order };
        const orders = read(
          renderFreshness([standing]).markup + renderDelivery({ delivery, timeline: [], moment }).markup,
        );
        const screens = `${main} ${orders} ${print(standing)}`;
        const together = PAIRS.filter(([one, other]) => one.test(screens) && other.test(screens));
        // A good order stands beside bad news of the mirror, and the other way round.
        expect(together.filter(([one]) => one.source !== "All good" || WRONG.test(main))).toEqual([]);
        const stated = [...render(overview).matchAll(/data-condition="(\w+)"/g)].map(([, name = ""]) => name);
        expect(stated.toSorted()).toEqual(overview.holding.map(({ condition }) => condition.name).toSorted());
      }),
      { numRuns: 150 },
    );
  });
});
