import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Browser } from "playwright-core";
import {
  findBarriers,
  findChromium,
  NO_BROWSER,
  openBrowser,
  openTab,
  overflow,
} from "../../support/pages/browser.ts";
import { makeTestSandbox, type TestSandbox } from "../../support/providers/testSandbox.ts";

const MIRROR = "http://127.0.0.1:9/ops/orders";

describe.skipIf(findChromium() === undefined)(`the sandbox's page in a browser (else ${NO_BROWSER})`, () => {
  let provider: TestSandbox;
  let browser: Browser;

  beforeAll(async () => {
    provider = await makeTestSandbox({
      mirrorPageOf: ({ mode, reference }) => `${MIRROR}/${mode}/${reference}`,
    });
    await provider.steer("POST", "/seed", { orders: 20 });
    const opened = await openBrowser();
    if (opened === undefined) throw new Error(NO_BROWSER);
    browser = opened;
  });
  afterAll(async () => {
    await browser.close();
    await provider.close();
  });

  it("can be used at a desk, with a phone and in the dark: without barriers, overflow, errors or external requests", async () => {
    const { page, troubles, close } = await openTab(browser, provider.url);
    await page.goto("/_sandbox");
    for (const [width, colorScheme] of [
      [1280, "light"],
      [360, "dark"],
    ] as const) {
      await page.setViewportSize({ width, height: 800 });
      await page.emulateMedia({ colorScheme });
      expect(await findBarriers(page)).toEqual([]);
      expect(await overflow(page)).toBe(0);
    }
    expect(await page.getByLabel("Events that are never sent").inputValue()).toBe("0");
    expect(await page.getByLabel("Sorting of order lists").inputValue()).toBe("ascending");
    expect(troubles).toEqual([]);
    await close();
  });

  it("links each order of its business, and each of their events, to the mirror, and no order of others", async () => {
    const { references } = await provider.steer("POST", "/orders", { count: 1, mode: "test" });
    const { page, close } = await openTab(browser, provider.url);
    await page.goto("/_sandbox");
    const orders = page.getByRole("region", { name: "Latest changed orders" });
    const ofOrder = orders.getByRole("link", { name: references[0], exact: true });
    expect(await ofOrder.getAttribute("href")).toBe(`${MIRROR}/test/${references[0]}`);
    const { reference } = await provider.steer("POST", "/scenarios", { scenario: "duplicate" });
    await page.reload();
    const ofEvent = page.getByRole("region", { name: "Events" }).getByRole("link", { name: reference });
    expect(await ofEvent.first().getAttribute("href")).toBe(`${MIRROR}/live/${reference}`);
    const other = await provider.steer("POST", "/orders", { count: 1, organization: "other" });
    await provider.steer("POST", `/orders/${other.references[0]}/step`, {});
    await page.reload();
    expect(await page.getByText(other.references[0]).count()).toBe(1);
    expect(await page.getByRole("link", { name: other.references[0] }).count()).toBe(0);
    await close();
  });
});
