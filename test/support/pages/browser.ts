import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { chromium, type Browser, type BrowserContextOptions, type Page } from "playwright-core";

export const NO_BROWSER = "not run: no chromium found on the PATH";
/** For what hangs: on a busy machine a sound page takes many times as long as the 30 seconds that Playwright waits. */
const HANG_MS = 600_000;
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Path of an installed Chromium or Chrome, or undefined; first of one without windows, which needs half the time. */
export function findChromium(): string | undefined {
  const folders = (process.env["PATH"] ?? "").split(path.delimiter);
  const names = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];
  return folders.flatMap((folder) => names.map((name) => path.join(folder, name))).find(existsSync);
}

if (findChromium() === undefined) {
  // oxlint-disable-next-line no-console -- whoever runs the tests must know what they did not prove
  console.warn("NOT RUN: the tests in a browser. There is no chromium on the PATH.");
}

/** The installed Chromium; undefined where there is none. */
export async function openBrowser(): Promise<Browser | undefined> {
  const executablePath = findChromium();
  if (executablePath === undefined) return undefined;
  const args = ["--no-sandbox", "--disable-dev-shm-usage"];
  return chromium.launch({ executablePath, args, timeout: HANG_MS });
}

export interface Look {
  readonly page: Page;
  /** Errors in the console, and requests that left the host: both should stay empty. */
  readonly troubles: string[];
  readonly close: () => Promise<void>;
}

/** A separate tab with its own cookies. */
export async function openTab(
  browser: Browser,
  baseURL: string,
  options: BrowserContextOptions = {},
): Promise<Look> {
  const context = await browser.newContext({ baseURL, ...options });
  context.setDefaultTimeout(HANG_MS);
  const page = await context.newPage();
  const troubles: string[] = [];
  const { host } = new URL(baseURL);
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") troubles.push(message.text());
  });
  page.on("pageerror", (error) => troubles.push(String(error)));
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol !== "data:" && url.host !== host) troubles.push(`request to ${url.host}`);
  });
  return { page, troubles, close: () => context.close() };
}

/** The rules of axe-core that look at colours: all that another theme can change. */
export const COLOUR_RULES = ["color-contrast", "link-in-text-block"];

/**
 * Ids and places of what axe-core calls serious or critical, by its usual rules or only by these. The page's policy does
 * not apply to axe-core.
 */
export async function findBarriers(page: Page, rules?: readonly string[]): Promise<string[]> {
  // Through the driver, to which the page's policy does not apply.
  if (await page.evaluate<boolean>("globalThis.axe === undefined")) await page.evaluate(`${AXE}; undefined`);
  const options = JSON.stringify({ resultTypes: ["violations"], ...(rules && { runOnly: rules }) });
  const { violations } = await page.evaluate<AxeResult>(`globalThis.axe.run(${options})`);
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 120)).join(" | ")}`);
}

interface AxeResult {
  readonly violations: readonly {
    readonly id: string;
    readonly impact: string;
    readonly nodes: readonly { readonly html: string }[];
  }[];
}

/** How many pixels the page, or a part of it, is wider than its place; 0 when nothing has to be scrolled sideways. */
export async function overflow(page: Page, part = ":root"): Promise<number> {
  const place = `document.querySelector(${JSON.stringify(part)})`;
  return page.evaluate<number>(`${place}.scrollWidth - ${place}.clientWidth`);
}

/** A field of date and time has a stop for each of its parts. */
const PARTS_OF_A_TIME = 7;

/**
 * Tabs through the page from its beginning. Returns what a person with a keyboard would miss: stops that the eye does
 * not find (no outline, or beyond the side of the window), and controls that no Tab reaches.
 */
export async function keyboardFaults(page: Page): Promise<string[]> {
  const expected = await page.evaluate<number>(`(() => {
    // What is replaced meanwhile would be counted twice.
    document.getElementById("pause")?.click();
    document.activeElement?.blur();
    scrollTo(0, 0);
    globalThis.tour = { stops: new Set(), faults: new Set() };
    document.addEventListener("focusin", ({ target: stop }) => {
      const { outlineStyle, outlineWidth } = getComputedStyle(stop);
      const { left, right } = stop.getBoundingClientRect();
      const isSeen = outlineStyle !== "none" && parseFloat(outlineWidth) >= 2 && right > 0 && left < innerWidth;
      globalThis.tour.stops.add(stop);
      // The browser marks the part of a time instead of the whole field.
      if (!isSeen && stop.type !== "datetime-local") globalThis.tour.faults.add(stop.outerHTML.slice(0, 100));
    });
    return [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
      // Links of a chart stand in its table, too.
      .filter((stop) => stop.checkVisibility() && !stop.disabled && stop.type !== "hidden" && stop.tabIndex >= 0).length;
  })()`);
  const parts = await page.locator("input[type=datetime-local]").count();
  const presses = expected + parts * PARTS_OF_A_TIME;
  // Held down: the focus moves with every repetition, of which none waits for the answer to the one before.
  await Promise.all(Array.from({ length: presses }, () => page.keyboard.down("Tab")));
  await page.keyboard.up("Tab");
  const { stops, faults } = await page.evaluate<{ stops: number; faults: string[] }>(
    "({ stops: globalThis.tour.stops.size, faults: [...globalThis.tour.faults] })",
  );
  return stops < expected ? [...faults, `${expected - stops} controls are not reached`] : faults;
}
