import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import type { Browser, BrowserContextOptions } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makePool } from "../../../src/database/database.ts";
import type { Pool } from "../../../src/database/database.ts";
import { makeOpsRouter } from "../../../src/ops/opsRouter.ts";
import { setAnswerHeaders } from "../../../src/roles/serve.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { openBoardQueue } from "../../support/pages/boardQueue.ts";
import { NO_BROWSER, openBrowser, openTab } from "../../support/pages/browser.ts";
import { findChromium } from "../../support/pages/chromium.ts";
import { comparePictures } from "../../support/pages/comparePictures.ts";
import { makeFixedClockDatabase } from "../../support/pages/fixedClock.ts";
import { makeTestSandbox } from "../../support/providers/testSandbox.ts";
import type { TestSandbox } from "../../support/providers/testSandbox.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { fillShop } from "../../support/pages/shop.ts";
import { serve } from "../../support/http/serve.ts";
import type { TestServer } from "../../support/http/serve.ts";

const ROOT = path.resolve(import.meta.dirname, "../../..");
const COMMAND = "npm run screenshots";
const isWriting = process.env["PICTURES"] === "write";
const END = "2026-11-22T14:32:07Z";
const DESK = { viewport: { width: 1280, height: 800 }, colorScheme: "light" } as const;
const PHONE = { viewport: { width: 360, height: 780 }, colorScheme: "dark" } as const;
const FORCED = { ...DESK, forcedColors: "active" } as const;
/** Of all pixels. Other fonts differ in tens of per cent, a changed word in a few thousandths. */
const SHARE_MAX = 0.002;

/** The first six are shown in README; the others are kept to compare with. */
const PICTURES: Readonly<Record<string, readonly [address: string, screen: BrowserContextOptions]>> = {
  "docs/images/overview": ["/ops", DESK],
  "docs/images/overview-phone-dark": ["/ops", PHONE],
  "docs/images/orders": ["/ops/orders", DESK],
  "docs/images/orders-phone": ["/ops/orders?is=open", PHONE],
  "docs/images/order": ["/ops/orders/live/DO-771KKT4C", DESK],
  "docs/images/sandbox": ["/_sandbox", DESK],
  "test/integration/ops/pictures/overview-forced-colours": ["/ops", FORCED],
  "test/integration/ops/pictures/source": ["/ops/sources/live", DESK],
  "test/integration/ops/pictures/lost-phone": ["/ops/lost", PHONE],
  "test/integration/ops/pictures/queue": ["/ops/queue-health", DESK],
};

/**
 * The pictures of README and docs, and what the pages looked like when somebody last looked at them: made of a mirror
 * whose clock stands still, so that they are the same at every run.
 */
describe.skipIf(findChromium() === undefined)(`the pictures (else ${NO_BROWSER})`, () => {
  let database: Awaited<ReturnType<typeof makeFixedClockDatabase>>;
  let pool: Pool;
  let board: Awaited<ReturnType<typeof openBoardQueue>>;
  let server: TestServer;
  let provider: TestSandbox;
  let browser: Browser;

  beforeAll(async () => {
    database = await makeFixedClockDatabase();
    pool = makePool({ url: database.url, purpose: "ops", max: 4, statementTimeoutMs: 10_000 });
    await fillShop(pool, { end: END, setClock: (instant) => database.setClock(instant) });
    board = await openBoardQueue(database.url, "apply");
    await board.queue.add("events", { seqs: [1, 2, 3, 4] }, { timestamp: Date.parse(END) - 250 });
    provider = await makeTestSandbox({ clock: "virtual", clockStart: parseInstant(END) });
    await provider.steer("POST", "/seed", { orders: 40 });
    const config = { opsPassword: null, opsViewerPassword: null, localTrust: true };
    const router = makeOpsRouter({ pool, queues: () => [board.queue], config, logger: silentLogger });
    server = await serve(setAnswerHeaders, router);
    const opened = await openBrowser();
    if (opened === undefined) throw new Error(NO_BROWSER);
    browser = opened;
  });
  afterAll(async () => {
    await browser.close();
    await server.close();
    await provider.close();
    await board.close();
    await pool.end();
    await database.drop();
  });

  it.each(Object.entries(PICTURES))("%s shows the page as it is", async (name, [address, screen]) => {
    const { page, troubles, close } = await openTab(
      browser,
      address === "/_sandbox" ? provider.url : server.url,
      screen,
    );
    // The page's line about updates counts seconds.
    await page.clock.setFixedTime(END);
    await page.goto(address, { waitUntil: "networkidle" });
    const fresh = await page.screenshot({ animations: "disabled", caret: "hide" });
    await close();
    expect(troubles).toEqual([]);
    const file = path.join(ROOT, `${name}.png`);
    if (isWriting) {
      await mkdir(path.dirname(file), { recursive: true });
      await writeFile(file, fresh);
      return;
    }
    const stored = await readFile(file);
    const difference = await comparePictures(browser, stored, fresh);
    const isSame = difference <= SHARE_MAX;
    expect(isSame, `${name}.png shows the page as it was: run ${COMMAND}, and look at what has changed`).toBe(
      true,
    );
  });
});
