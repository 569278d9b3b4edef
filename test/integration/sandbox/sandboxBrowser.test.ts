import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Browser } from "playwright-core";
import { findBarriers, NO_BROWSER, openBrowser, openTab, overflow } from "../../support/pages/browser.ts";
import { findChromium } from "../../support/pages/chromium.ts";
import { makeTestSandbox } from "../../support/providers/testSandbox.ts";
import type { TestSandbox } from "../../support/providers/testSandbox.ts";

const PATIENCE_MS = 30_000;

describe.skipIf(findChromium() === undefined)(`the sandbox's page in a browser (else ${NO_BROWSER})`, () => {
  let provider: TestSandbox;
  let browser: Browser;

  beforeAll(async () => {
    provider = await makeTestSandbox();
    await provider.steer("POST", "/seed", { orders: 20 });
    const opened = await openBrowser();
    if (opened === undefined) throw new Error(NO_BROWSER);
    browser = opened;
  });
  afterAll(async () => {
    await browser.close();
    await provider.close();
  });

  it.each([
    ["at a desk", { viewport: { width: 1280, height: 900 } }],
    ["with a phone", { viewport: { width: 360, height: 740 } }],
  ])(
    "can be used %s: without accessibility violations, overflow, errors or external requests",
    async (_where, screen) => {
      const { page, troubles, close } = await openTab(browser, provider.url, screen);
      await page.goto("/_sandbox");
      expect(await findBarriers(page)).toEqual([]);
      expect(await overflow(page)).toBe(0);
      expect(await page.getByLabel("Events that are never sent").inputValue()).toBe("0");
      expect(await page.getByLabel("Sorting of order lists").inputValue()).toBe("ascending");
      expect(troubles).toEqual([]);
      await close();
    },
  );

  it("plays a scenario without JavaScript and shows the result", async () => {
    const options = { viewport: { width: 1280, height: 900 }, javaScriptEnabled: false };
    const { page, troubles, close } = await openTab(browser, provider.url, options);
    page.setDefaultTimeout(PATIENCE_MS);
    await page.goto("/_sandbox");
    await page.getByLabel("scenario", { exact: true }).selectOption("lost-webhook");
    await page.getByRole("button", { name: "trigger" }).click();
    await page.getByRole("status").waitFor();
    expect(await page.getByRole("status").innerText()).toMatch(/lost-webhook/);
    expect(troubles).toEqual([]);
    await close();
  });
});
