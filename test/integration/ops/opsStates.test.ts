import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Browser, Page } from "playwright-core";
import { findBarriers, NO_BROWSER, openBrowser, openTab, overflow } from "../../support/pages/browser.ts";
import { findChromium } from "../../support/pages/chromium.ts";
import { calls, FAULTS, poll, WELL } from "../../support/pages/faults.ts";
import { lost } from "../../support/mirror/webhookHours.ts";
import { brokenWords, smallControls } from "../../support/pages/pageChecks.ts";
import { openSurfaces } from "../../support/pages/surfaces.ts";
import type { Surfaces } from "../../support/pages/surfaces.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";
import { addSource } from "../../support/mirror/orders.ts";
import { WEBHOOK_SECRET } from "../../support/signing/webhooks.ts";

/** With `STATE_PICTURES=test/integration/ops/pictures/states`, the pictures of the states are taken again. */
const SIZES = [
  { width: 390, height: 800 },
  { width: 1280, height: 800 },
];

const fault = (name: string) => FAULTS.find(([each]) => each === name)?.[2] ?? "";
const NANOS = "(extract(epoch from clock_timestamp()) * 1000000000)::bigint";

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
      /^✖ 1 event of live waiting\. No worker is keeping up\. Since .* \(7 min \d+ s\)\. Start order-mirror worker/,
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
      /^▲ Polls of live get no usable answer .* Since .* \(11 min \d+ s\)\. Check the provider's status page and wait/,
    answers: ["… Behind", "✔ Webhooks arrive", "✔ Nothing stuck", "▲ No"],
  },
  {
    name: "every webhook is refused",
    statement: `update mirror.sources set event_grace = '5 minutes';
      ${calls("wrong_signature", 12)} ${lost(1, "1 minute", { counted: false })}`,
    verdict:
      /^✖ Every webhook of live is refused \(12 calls\): the secret or WEBHOOK_SCHEME is wrong\. Since/,
    answers: ["✔ Up to date", "✖ Webhooks refused", "✔ Nothing stuck", "✔ Yes"],
  },
  {
    name: "the provider refuses the key",
    statement: fault("KeyRefused"),
    verdict: /^✖ The provider refuses the API key of live\. .* Since .* \(2 min \d+ s\)\. Put the key from/,
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
      /^▲ 61 events or reads of live could not be processed\. Since .* Details Process them again or dismiss them…$/,
    answers: ["✔ Up to date", "✔ Webhooks arrive", "▲ Some stuck", "✔ Yes"],
  },
];

describe.skipIf(findChromium() === undefined)(`the overview in nine states (else ${NO_BROWSER})`, () => {
  let database: TestDatabase;
  let surfaces: Surfaces;
  let browser: Browser;

  beforeAll(async () => {
    database = await makeTestDatabase();
    await addSource(database.pool, "live");
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
    await database.drop();
  });

  const readText = async (page: Page, selector: string) =>
    (await page.locator(selector).allInnerTexts()).map((text) => text.replaceAll(/\s+/g, " ").trim());

  it.each(STATES)("says in one screen that $name", async ({ name, statement, verdict, answers }) => {
    await database.pool.query(WELL);
    await database.pool.query(statement);
    // Later loads within four seconds show the same reading.
    await surfaces.readPage();
    const { page, troubles, close } = await openTab(browser, surfaces.url);
    for (const size of SIZES) {
      await page.setViewportSize(size);
      await page.goto("/ops");
      const [said = ""] = await readText(page, "#verdict");
      expect(said).toMatch(verdict);
      expect(await readText(page, ".tiles .answer")).toEqual(answers);
      for (const part of await page.locator("#verdict").all()) {
        const { y = -1, height = 9_999 } = (await part.boundingBox()) ?? {};
        expect({ name, size, isInSight: y >= 0 && y + height <= size.height }).toEqual({
          name,
          size,
          isInSight: true,
        });
      }
      const folder = process.env["STATE_PICTURES"];
      if (folder !== undefined) {
        const height = size.width < 1_000 ? 620 : 340;
        const path = `${folder}/${name.replaceAll(" ", "-")}-${size.width}.png`;
        await page.screenshot({ path, clip: { x: 0, y: 0, width: size.width, height } });
      }
      expect(await brokenWords(page)).toEqual([]);
      expect(await smallControls(page)).toEqual([]);
      expect(await overflow(page)).toBe(0);
    }
    expect(await findBarriers(page)).toEqual([]);
    const isGood = answers.every((answer) => answer.startsWith("✔"));
    expect((await page.title()).startsWith("All good")).toBe(isGood);
    expect(troubles).toEqual([]);
    await close();
  });
});
