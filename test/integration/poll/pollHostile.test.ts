import { expect, it } from "vitest";
import { addSeconds, formatInstant } from "../../../src/domain/order/instant.ts";
import { readLiveOrders } from "../../support/providers/testSandbox.ts";
import { logInto } from "../../support/run/logInto.ts";
import {
  mostInTenSeconds,
  startVirtualWorld,
  withClockOff,
  type Spoil,
} from "../../support/virtual/virtualTime.ts";

/** Spoils the answers to GET /v1/orders only. */
const ofLists =
  (spoil: Spoil): Spoil =>
  (good) =>
    good.url.pathname === "/v1/orders" ? spoil(good) : undefined;

/** Changes the JSON of a list page. */
const changePage = (change: (page: ListPage) => unknown): Spoil =>
  ofLists(({ body }) => ({ body: JSON.stringify(change(JSON.parse(body) as ListPage)) }));

interface ListPage {
  readonly data: readonly Record<string, unknown>[];
  readonly hasMore: boolean;
}

const MINUTE_MS = 60_000;
const SPELL_MS = 4 * MINUTE_MS;
/** The longest pause between two attempts is a minute; then the gap is read, and a sweep proves it. */
const HEALING_MS = 4 * MINUTE_MS;
const TEN_MINUTES_MS = 10 * MINUTE_MS;
const HOUR_SECONDS = 3_600;
/** Changes younger than this may still be missing: an interval, the settle time and a page. */
const FRESH_SECONDS = 70;
/** How far behind safe_through may be: the margin, four intervals, the cycle under way, and the next one. */
const BEHIND_MAX_SECONDS = 480;
/** In four minutes, for which the rate would allow 480. */
const REQUESTS_MAX = 80;

interface Spell {
  readonly spoil: Spoil;
  /** Matches the warning in the log; or it is shown as an error of the clock. */
  readonly reported: RegExp | "clock";
  readonly healingMs?: number;
}

const spells: Record<string, Spell> = {
  "HTML with 200 from a machine whose clock is two months ahead": {
    spoil: (good) => ({
      headers: { "content-type": "text/html", ...withClockOff(60 * 24 * HOUR_SECONDS)(good)?.headers },
      body: "<!doctype html><title>Checking your browser</title>",
    }),
    reported: /content type is not JSON/,
  },
  "the same rows on every page, without end": {
    spoil: repeatFirstRows(),
    reported: /there are more orders but does not list them|more pages than/,
  },
  "a Retry-After of ten minutes": {
    spoil: ofLists(() => ({ status: 429, headers: { "retry-after": "600" }, body: "" })),
    reported: /HTTP 429/,
    healingMs: TEN_MINUTES_MS + HEALING_MS,
  },
  "a clock ten minutes ahead": { spoil: withClockOff(TEN_MINUTES_MS / 1_000), reported: "clock" },
};

/** Answers every request with the rows of the first one. */
function repeatFirstRows(): Spoil {
  let rows: unknown;
  return changePage((page) => {
    if (page.data.length > 0) rows ??= page.data;
    return { ...page, data: rows ?? page.data, hasMore: true };
  });
}

it("keeps polling through every kind of bad answer, and is complete again soon after each", async () => {
  const { world, warnings, look } = await startWorld();
  const { clock, sent } = world;
  let nowMs = 0;
  const pass = (ms: number) => clock.runUntil((nowMs += ms));
  await pass(HEALING_MS);

  for (const [name, { spoil, reported, healingMs = HEALING_MS }] of Object.entries(spells)) {
    const requestsBefore = sent.length;
    warnings.length = 0;
    let struck = 0;
    world.spoil((good) => {
      const bad = spoil(good);
      if (bad !== undefined) struck += 1;
      return bad;
    });
    await pass(SPELL_MS);
    const ill = await look();
    const isTold =
      reported === "clock" ? ill.clockError !== null : warnings.some((line) => reported.test(line));
    const requests = sent.length - requestsBefore;
    expect({
      name,
      struck: struck > 0,
      isTold,
      falseClaims: ill.falseClaims,
      frozen: ill.frozen,
      measured: requests < REQUESTS_MAX,
    }).toEqual({ name, struck: true, isTold: true, falseClaims: [], frozen: 0, measured: true });

    world.spoil();
    await pass(healingMs);
    const { stale, falseClaims, clockError, behindSeconds } = await look();
    const isNear = behindSeconds < BEHIND_MAX_SECONDS;
    const healed = { name, stale: [], falseClaims: [], clockError: null, isNear: true };
    expect({ name, stale, falseClaims, clockError, isNear }).toEqual(healed);
  }

  await world.steer("POST", "/dials", { speed: 0, ordersPerMinute: 0 });
  await pass(2 * MINUTE_MS);
  const { rows } = await world.pool.query<{ reference: string; raw: unknown }>(
    "select reference, raw from mirror.orders",
  );
  expect(new Map(rows.map(({ reference, raw }) => [reference, raw]))).toEqual(
    await readLiveOrders(world.steer),
  );
  // The only 429 is the one that was invented.
  expect(sent.filter(({ status }) => status === 429)).toHaveLength(1);
  expect(mostInTenSeconds(world.listTimes())).toBeLessThanOrEqual(20);
});

async function startWorld() {
  const world = await startVirtualWorld({ speed: 1, trafficPerMinute: 3 });
  const { pool, sandbox, steer, startPoller, differences, falseClaims } = world;
  const since = formatInstant(addSeconds(sandbox.now(), -HOUR_SECONDS));
  await steer("POST", "/seed", { orders: 300, since });
  const warnings: string[] = [];
  startPoller("only", { logger: logInto((line) => void warnings.push(line)) });

  async function look() {
    type Row = { safe: string; clockError: number | null; frozen: number };
    const { rows } = await pool.query<Row>(
      `select safe_through as safe, clock_error_seconds as "clockError", (select count(*)::int from mirror.orders where horizon > $1) as frozen
       from mirror.poll_state`,
      [sandbox.now()],
    );
    const { safe, ...counts } = rows[0]!;
    return {
      ...counts,
      behindSeconds: Number(sandbox.now() - BigInt(safe)) / 1e9,
      /** Orders that the mirror claims but that differ from the provider's. */
      falseClaims: await falseClaims(BigInt(safe)),
      stale: await differences(addSeconds(sandbox.now(), -FRESH_SECONDS)),
    };
  }
  return { world, warnings, look };
}
