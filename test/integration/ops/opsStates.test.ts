import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Browser, Page } from "playwright-core";
import {
  COLOUR_RULES,
  findBarriers,
  findChromium,
  NO_BROWSER,
  openBrowser,
  openTab,
  overflow,
} from "../../support/pages/browser.ts";
import { calls, FAULTS, poll, WELL } from "../../support/pages/faults.ts";
import { lost } from "../../support/mirror/webhookHours.ts";
import { brokenWords, smallControls } from "../../support/pages/pageChecks.ts";
import { openSurfaces, type Surfaces } from "../../support/pages/surfaces.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { applyAbsence } from "../../../src/apply/absence.sql.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { orderAddress } from "../../../src/ops/phrases.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { addSource, makeEventBody, putIntoInbox } from "../../support/mirror/orders.ts";
import { secondsAgo } from "../../support/pages/opsMirror.ts";
import { WEBHOOK_SECRET } from "../../support/signing/webhooks.ts";

/** With `STATE_PICTURES=test/integration/ops/pictures/states`, the pictures of the states are taken again. */
const SIZES = [
  { width: 390, height: 800 },
  { width: 1280, height: 800 },
];

const fault = (name: string) => FAULTS.find(([each]) => each === name)?.[2] ?? "";
const NANOS = "(extract(epoch from clock_timestamp()) * 1000000000)::bigint";

type Size = (typeof SIZES)[number];

interface State {
  readonly name: string;
  readonly statement: string;
  readonly verdict: RegExp;
  /** Fresh, lost, stuck, able to catch up. */
  readonly answers: readonly [string, string, string, string];
}

const STATES: readonly State[] = [
  {
    name: "all is good",
    statement: "select 1",
    verdict: /^✔ All good\. Complete up to \d\d:\d\d \(1 min \d+ s ago\)\.$/,
    answers: ["✔ Up to date", "✔ Webhooks arrive", "✔ Nothing stuck", "✔ Yes"],
  },
  {
    name: "a new source has not been read",
    statement: `update mirror.sources set created_at = now(); ${poll("safe_through = null")}`,
    verdict: /^… Starting: live not verified yet\.$/,
    answers: ["… Starting", "✔ Webhooks arrive", "✔ Nothing stuck", "✔ Yes"],
  },
  {
    name: "the worker is dead",
    statement: fault("EventsWait"),
    verdict:
      /^✖ 1 event of live waiting\. No worker is keeping up\. On our side since .* \(7 min \d+ s\)\. Start order-mirror worker/,
    answers: ["✔ Up to date", "✔ Webhooks arrive", "✖ Stuck", "… Has a backlog"],
  },
  {
    name: "the provider is away for four minutes",
    statement: `${poll(`last_error = 'GET /v1/orders failed', trouble = 'away', failing_since = now() - interval '4 minutes',
      polled_through = ${NANOS} - 240000000000, safe_through = ${NANOS} - 300000000000`)}`,
    verdict: /^… Watching: Polls of live get no usable answer .* for 4 min \d+ s; alerts at 10 min$/,
    answers: ["… Behind", "✔ Webhooks arrive", "✔ Nothing stuck", "… Interrupted"],
  },
  {
    name: "the provider is away for eleven minutes",
    statement: `${poll(`last_error = 'GET /v1/orders failed', trouble = 'away', failing_since = now() - interval '11 minutes',
      polled_through = ${NANOS} - 660000000000, safe_through = ${NANOS} - 720000000000`)}`,
    verdict:
      /^▲ Polls of live get no usable answer .* At the provider, or on the way to it since .* \(11 min \d+ s\)\. Check the provider's status page and wait/,
    answers: ["… Behind", "✔ Webhooks arrive", "✔ Nothing stuck", "▲ No"],
  },
  {
    name: "every webhook is refused",
    statement: `update mirror.sources set event_grace = '5 minutes';
      ${calls("wrong_signature", 12)} ${lost(1, "1 minute", { counted: false })}`,
    verdict:
      /^✖ Every webhook of live is refused \(12 calls\): the secret or WEBHOOK_SCHEME is wrong\. Between us and the provider since/,
    answers: ["✔ Up to date", "✖ Webhooks refused", "✔ Nothing stuck", "✔ Yes"],
  },
  {
    name: "the provider refuses the key",
    statement: fault("KeyRefused"),
    verdict:
      /^✖ The provider refuses the API key of live\. .* Between us and the provider since .* \(2 min \d+ s\)\. Put the key from/,
    answers: ["✔ Up to date", "✔ Webhooks arrive", "✔ Nothing stuck", "✖ No"],
  },
  {
    name: "a third of the webhooks is lost",
    statement: lost(45, "20 minutes") + calls("accepted", 1),
    verdict:
      /^▲ 31\.0 % of the events of live were lost within a day \(45 of 145\); polling repaired the orders\./,
    answers: ["✔ Up to date", "▲ Some missed", "✔ Nothing stuck", "✔ Yes"],
  },
  {
    name: "the quarantine is filled",
    statement: `insert into mirror.quarantine (source_id, via, reason)
      select 'live', 'webhook', 'not_json' from generate_series(1, 61)`,
    verdict:
      /^▲ 61 events or reads of live could not be processed\. Between us and the provider since .* Details$/,
    answers: ["✔ Up to date", "✔ Webhooks arrive", "▲ Some stuck", "✔ Yes"],
  },
];

const TRICK = `<b onclick=alert(1)>A\u202Egnirts\u200B</b> ${"long ".repeat(30)}${"x".repeat(200)}`;

/** Orders that a person looks at when something is strange: what the page says first. */
const ORDERS: readonly (readonly [name: string, reference: string, says: RegExp])[] = [
  [
    "an order with hostile text",
    `DO-\u202E1<script>alert(1)</script>${"9".repeat(60)}`,
    /Pause Order DO-⟨U\+202E⟩1<script>.* Not yet verified: reported .* Fleet <b onclick=alert\(1\)>A⟨U\+202E⟩gnirts/,
  ],
  [
    "a gone order",
    "DO-GONE",
    /Order DO-GONE Data up to \d\d:\d\d \(\d+ s ago\)\. ✖ The provider no longer has this order, found [^✖]* Arrived for pickup Picked up /,
  ],
];

const { database } = await openTestDatabase();
await addSource(database.pool, "live");

describe.skipIf(findChromium() === undefined)(`the overview in nine states (else ${NO_BROWSER})`, () => {
  let surfaces: Surfaces;
  let browser: Browser;

  beforeAll(async () => {
    surfaces = await openSurfaces({
      DATABASE_URL: database.url,
      DELIVERY_BASE_URL: "http://127.0.0.1:9",
      DELIVERY_LIVE_API_KEY: "dos_live_sandbox",
      DELIVERY_LIVE_WEBHOOK_SECRETS: WEBHOOK_SECRET,
      LOCAL_TRUST: "true",
    });
    const opened = await openBrowser();
    if (opened === undefined) throw new Error(NO_BROWSER);
    browser = opened;
  });
  afterAll(async () => {
    await browser.close();
    await surfaces.close();
  });

  const readText = async (page: Page, selector: string) =>
    (await page.locator(selector).allInnerTexts()).map((text) => text.replaceAll(/\s+/g, " ").trim());

  /** Opens the page at each size, checks it, and takes its picture where one is wanted. */
  async function visit(
    name: string,
    address: string,
    {
      heights,
      check,
    }: { heights?: readonly [number, number]; check: (page: Page, size: Size) => Promise<void> },
  ): Promise<void> {
    const { page, troubles, close } = await openTab(browser, surfaces.url);
    for (const [index, size] of SIZES.entries()) {
      await page.setViewportSize(size);
      await page.goto(address);
      await check(page, size);
      const folder = process.env["STATE_PICTURES"];
      const path = `${folder}/${name.replaceAll(" ", "-")}-${size.width}.png`;
      const clip = { x: 0, y: 0, width: size.width, height: heights?.[index] ?? size.height };
      if (folder !== undefined && heights) await page.screenshot({ path, clip });
      const faults = [...(await brokenWords(page)), ...(await smallControls(page)), await overflow(page)];
      expect({ name, size, faults }).toEqual({ name, size, faults: [0] });
    }
    expect(await findBarriers(page)).toEqual([]);
    await page.emulateMedia({ colorScheme: "dark" });
    expect(await findBarriers(page, COLOUR_RULES)).toEqual([]);
    expect(troubles).toEqual([]);
    await close();
  }

  it.each(STATES)("says in one screen that $name", async ({ name, statement, verdict, answers }) => {
    await database.pool.query(WELL);
    await database.pool.query(statement);
    // Later loads within four seconds show the same reading.
    await surfaces.readPage();
    const isGood = answers.every((answer) => answer.startsWith("✔"));
    const check = async (page: Page, size: Size) => {
      const [said = ""] = await readText(page, "#verdict");
      expect(said).toMatch(verdict);
      expect(await readText(page, ".tiles .answer")).toEqual(answers);
      const { y = -1, height = 9_999 } = (await page.locator("#verdict").boundingBox()) ?? {};
      expect({ name, isInSight: y >= 0 && y + height <= size.height }).toEqual({ name, isInSight: true });
      expect((await page.title()).startsWith("All good")).toBe(isGood);
    };
    await visit(name, "/ops", { heights: [620, 340], check });
  });

  it.each(ORDERS)("says on the page of %s what it is", async (name, reference, says) => {
    await database.pool.query(WELL);
    const isGone = name === "a gone order";
    const more = isGone ? {} : { externalOrderId: TRICK, fleet: { name: TRICK } };
    const order = { reference, status: "created", updatedAt: secondsAgo(40), more };
    const body = makeEventBody({ id: reference, type: "order.created", order });
    const seqs = await putIntoInbox(database.pool, [{ eventId: reference, body }]);
    await makeLiveApply(database.pool).applyEvents(seqs);
    if (isGone) {
      const horizon = parseInstant(secondsAgo(1));
      const read = { via: "refetch", horizon, requestedAt: horizon } as const;
      await applyAbsence(database.pool, { sourceId: "live", reference, ...read });
    }
    const check = async (page: Page) => {
      expect((await readText(page, "main")).join(" ")).toMatch(says);
    };
    await visit(name, orderAddress({ sourceId: "live", reference }), { heights: [800, 800], check });
  });

  it("shows orders with such names in a list in which nothing is clipped", async () => {
    const check = async (page: Page) => expect(await overflow(page, "#orders .wide")).toBe(0);
    await visit("orders", "/ops/orders", { check });
  });
});
