import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Browser, Page } from "playwright-core";
import { findBarriers, NO_BROWSER, openBrowser, openTab, overflow } from "../../support/pages/browser.ts";
import { findChromium } from "../../support/pages/chromium.ts";
import { FAULTS, lost, poll, WELL } from "../../support/pages/faults.ts";
import { brokenWords, smallControls } from "../../support/pages/pageChecks.ts";
import { openSurfaces } from "../../support/pages/surfaces.ts";
import type { Surfaces } from "../../support/pages/surfaces.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";
import { addSource } from "../../support/mirror/orders.ts";
import { WEBHOOK_SECRET } from "../../support/signing/webhooks.ts";

const SIZES = [
  { width: 360, height: 780 },
  { width: 1024, height: 768 },
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
    answers: ["… Starting", "✔ Webhooks arrive", "✔ Nothing stuck", "✔ Yes, in about 1 min"],
  },
  {
    name: "the poller catches up after twenty minutes",
    statement: poll(`safe_through = ${NANOS} - 1200000000000`),
    verdict: /^… Not a problem yet: Data of live may be missing since .* reported after 1 h 5 min$/,
    answers: ["… Catching up", "✔ Webhooks arrive", "✔ Nothing stuck", "✔ Yes, in about 1 min"],
  },
  {
    name: "a gap stays",
    statement: fault("Gaps"),
    verdict: /^▲ Changes of live may be missing between .* for 16 min \d+ s Read this gap now…$/,
    answers: ["▲ Not certain", "✔ Webhooks arrive", "✔ Nothing stuck", "✔ Yes"],
  },
  {
    name: "webhooks have stopped",
    statement: fault("EventsStopped"),
    verdict: /^✖ Webhooks of live have stopped: polling alone found the last 3 changes\. for \d+ min \d+ s$/,
    answers: ["✔ Up to date", "✖ Webhooks stopped", "✔ Nothing stuck", "✔ Yes"],
  },
  {
    name: "some webhooks are lost",
    statement: lost(2, "20 minutes"),
    verdict:
      /^▲ 2\.0 % of the events of live were lost within a day \(2 of 102\); polling repaired the orders\./,
    answers: ["✔ Up to date", "▲ Some missed", "✔ Nothing stuck", "✔ Yes"],
  },
  {
    name: "no worker runs",
    statement: fault("EventsWait"),
    verdict: /^✖ 1 event of live waits: no worker applies them, or not fast enough\. for 7 min \d+ s$/,
    answers: ["✔ Up to date", "✔ Webhooks arrive", "✖ Stuck", "… Not at this pace"],
  },
  {
    name: "events are in quarantine",
    statement: fault("Quarantine"),
    verdict:
      /^▲ 1 event or read of live could not be processed\. for \d+ s Process 1 again or dismiss them…$/,
    answers: ["✔ Up to date", "✔ Webhooks arrive", "▲ Some stuck", "✔ Yes"],
  },
  {
    name: "no poller runs, and data is missing since",
    statement: `update mirror.leases set expires_at = now() - interval '2 hours';
      ${poll(`safe_through = ${NANOS} - 7200000000000`)}`,
    verdict: /^✖ No poller runs for live\. for 2 h 0 min and 1 more$/,
    answers: ["▲ Behind", "✔ Webhooks arrive", "✔ Nothing stuck", "✖ No"],
  },
  {
    name: "the provider refuses the key",
    statement: fault("KeyRefused"),
    verdict: /^✖ The provider refuses the API key of live\. .* for 2 min \d+ s$/,
    answers: ["✔ Up to date", "✔ Webhooks arrive", "✔ Nothing stuck", "✖ No"],
  },
];

describe.skipIf(findChromium() === undefined)(`the overview in ten states (else ${NO_BROWSER})`, () => {
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
      const [said = ""] = await readText(page, ".verdict-line");
      expect(said).toMatch(verdict);
      expect(await readText(page, ".tiles .answer")).toEqual(answers);
      for (const part of await page.locator(".verdict-line, .tiles > li").all()) {
        const { y = -1, height = 9_999 } = (await part.boundingBox()) ?? {};
        expect({ name, size, isInSight: y >= 0 && y + height <= size.height }).toEqual({
          name,
          size,
          isInSight: true,
        });
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
