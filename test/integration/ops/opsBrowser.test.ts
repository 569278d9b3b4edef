import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import {
  COLOUR_RULES,
  findBarriers,
  findChromium,
  keyboardFaults,
  NO_BROWSER,
  openBrowser,
  openTab,
  type Look,
} from "../../support/pages/browser.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { fillMirror, fillOutgoing } from "../../support/pages/opsMirror.ts";
import { openOpsPages, PASSWORDS } from "../../support/pages/opsServer.ts";

const { pool, queue, url, as, renew } = await openOpsPages({ max: 4 });
await fillMirror(pool);
await fillOutgoing(pool, "<b>Internal Server Error</b>");
await queue.bull.add("events", { seqs: [1] });

const DESKTOP = { viewport: { width: 1280, height: 900 } };
const PHONE = { viewport: { width: 360, height: 740 }, colorScheme: "dark" } as const;
const ORDER = "/ops/orders/live/ORD-1001";
/** Tabs that look at pages at once. */
const TABS = 3;
/** 640: a window of 1280 with 200 % zoom. */
const WIDTHS = [1440, 640, 360];
/** Compressed. */
const BYTES_MAX = 100_000;
/** Pages with the same controls and colours as that of lost events: only what they show may be too wide. */
const LISTS = "waiting refetches walks tasks gaps breaches".split(" ").map((list) => `/ops/${list}`);
/** All our pages behind the login; a new page adds one line. */
const PAGES = [
  "/ops/orders",
  "/ops/orders?source=live&is=late&q=ord&sort=delivery&dir=up&within=7d",
  "/ops",
  ORDER,
  "/ops/orders/live/ORD-9",
  "/ops/lost",
  ...LISTS,
  "/ops/quarantine",
  "/ops/quarantine?state=dismissed&reason=not_json",
  "/ops/quarantine/1",
  "/ops/actions",
  "/ops/sources/live",
  "/ops/calls?source=live",
  "/ops/events/live/evt_1",
  "/ops/events/live/evt_bad",
  "/ops/events/refused",
  "/ops/queue-health",
  "/ops/outgoing",
  "/ops/outgoing/messages?endpoint=erp&state=delivered",
];
/** Pages with the controls and colours of another one, for other rows or another choice. */
const LIKE_OTHERS = [
  ...LISTS,
  ...PAGES.filter((path) => path.includes("?")),
  "/ops/orders/live/ORD-9",
  "/ops/events/live/evt_bad",
];
/** Pages whose colours are looked at in the dark, too; opsStates.test.ts does so with the overview and with orders. */
const COLOURED = ["/ops/orders", "/ops/sources/live", "/ops/quarantine/1", "/ops/outgoing"];
type Role = keyof typeof PASSWORDS;

describe.skipIf(findChromium() === undefined)(`the ops pages in a browser (else ${NO_BROWSER})`, () => {
  let browser: Browser;

  beforeAll(async () => {
    const opened = await openBrowser();
    if (opened === undefined) throw new Error(NO_BROWSER);
    browser = opened;
  });
  afterAll(() => browser.close());

  async function withTab(options: BrowserContextOptions, use: (look: Look) => Promise<void>): Promise<void> {
    const look = await openTab(browser, url, options);
    try {
      await use(look);
    } finally {
      await look.close();
    }
  }

  /** Does the same with each of them, in a few tabs at once, because a page waits for its server, style and frames. */
  async function forEach<Item>(
    items: Iterable<Item>,
    options: BrowserContextOptions,
    role: Role,
    use: (look: Look, item: Item) => Promise<void>,
  ): Promise<void> {
    const queue = [...items];
    const work = async (look: Look) => {
      await identify(look.page, role);
      for (let item = queue.shift(); item !== undefined; item = queue.shift()) await use(look, item);
    };
    await Promise.all(Array.from({ length: TABS }, () => withTab(options, work)));
  }

  const identify = (page: Page, role: Role) => {
    const [name = "", value = ""] = (as(role)["Cookie"] ?? "").split("=");
    return page.context().addCookies([{ name, value, url }]);
  };

  /** Opens a page with a session of its role; how people log in has its own test. */
  async function logIn(page: Page, role: Role, path = "/ops"): Promise<void> {
    await identify(page, role);
    await page.goto(path);
  }

  const listAttributes = (page: Page, selector: string, name: string) =>
    page
      .locator(selector)
      .evaluateAll(
        (all, attribute) =>
          all.map((one) =>
            (one as unknown as { getAttribute(name: string): string }).getAttribute(attribute),
          ),
        name,
      );
  it("can be used in both themes, at every width and with the keyboard, are small, and have no dead link", async () => {
    await withTab(DESKTOP, async ({ page, troubles }) => {
      await page.goto("/ops/login");
      expect(await findBarriers(page)).toEqual([]);
      expect(troubles).toEqual([]);
    });
    // One of those that differ by what they name.
    const addresses = new Map<string, string>();
    await forEach(PAGES, DESKTOP, "operator", async ({ page, troubles }, path) => {
      await page.emulateMedia({ colorScheme: "light" });
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 800 });
        if (width === WIDTHS[0]) await page.goto(path);
        expect({ path, width, ...(await findFaults(page)) }).toEqual({ path, width, ...NO_FAULTS });
      }
      const bytes = await weigh(page);
      expect({ path, isSmall: bytes > 1_000 && bytes < BYTES_MAX }).toEqual({ path, isSmall: true });
      for (const address of await listAttributes(page, "a[href^='/ops']", "href"))
        addresses.set(address.replaceAll(/=[^&#]*|[^/?&]*\d[^/?&]*/g, "…"), address);
      const isLikeOther = LIKE_OTHERS.includes(path);
      await page.setViewportSize(DESKTOP.viewport);
      const keyboard = isLikeOther ? [] : await keyboardFaults(page);
      expect({ path, keyboard }).toEqual({ path, keyboard: [] });
      const barriers = isLikeOther ? [] : await findBarriers(page);
      if (COLOURED.includes(path)) {
        await page.emulateMedia({ colorScheme: "dark" });
        barriers.push(...(await findBarriers(page, COLOUR_RULES)));
      }
      expect({ path, barriers }).toEqual({ path, barriers: [] });
      // The browser itself logs a missing page as an error.
      expect(troubles.filter((trouble) => !trouble.includes("status of 404"))).toEqual([]);
    });
    for (const address of addresses.values()) {
      const { status } = await fetch(url + address, { headers: as("operator") });
      expect({ address, status }).toEqual({ address, status: 200 });
    }
    expect(addresses.size).toBeGreaterThan(20);
  });

  it("show the same without JavaScript and with forced colours, and offer a viewer no control that changes anything", async () => {
    const options = { ...PHONE, javaScriptEnabled: false, forcedColors: "active" } as const;
    const pages = PAGES.filter((path) => !LIKE_OTHERS.includes(path));
    await forEach(pages, options, "viewer", async ({ page }, path) => {
      await page.goto(path);
      const more = { head: await page.locator("h1").count(), dead: await deadControls(page) };
      const faults = { path, ...(await findFaults(page)), ...more };
      expect(faults).toEqual({ path, ...NO_FAULTS, head: 1, dead: [] });
      const forms = await listAttributes(page, "form[method='post']", "action");
      expect({ path, forms }).toEqual({ path, forms: ["/ops/logout"] });
      const areFiguresOpen = await page.locator("#figures table").isVisible();
      expect({ path, areFiguresOpen }).toEqual({ path, areFiguresOpen: path === "/ops/sources/live" });
    });
  });

  it("show times in the zone of the reader, or in UTC, and keep addresses in UTC", async () => {
    const shown = {
      "2026-01-01T00:00:00Z": "2026-01-01 01:00:00.000",
      "2026-06-30T22:59:59Z": "2026-07-01 00:59:59.000",
      "2026-06-30T22:15:00Z": "2026-07-01 00:15:00.000",
      "2026-01-05T10:00:00.5Z": "2026-01-05 11:00:00.500",
      "2026-01-05T10:00:00.123456789Z": "2026-01-05 11:00:00.123",
    };
    await pool.query(
      `insert into mirror.coverage_breaches (source_id, since, until, kind, reference, version, found_by, detail)
       select 'live', at, at + 1, 'missed_change', 'ORD-1001', 1, 'poll', '' from unnest($1::bigint[]) at`,
      [Object.keys(shown).map((at) => parseInstant(at))],
    );
    await withTab({ ...DESKTOP, timezoneId: "Europe/Berlin" }, async ({ page, troubles }) => {
      await logIn(page, "operator", "/ops/breaches");
      for (const [at, text] of Object.entries(shown)) {
        const time = page.locator(`time[datetime="${at}"]`).first();
        expect([await time.textContent(), await time.getAttribute("title")]).toEqual([text, at]);
      }
      const time = page.locator('time[datetime="2026-06-30T22:59:59Z"]').first();
      await page.locator(".account summary").click();
      await page.getByRole("button", { name: "Use UTC" }).click();
      await page.reload();
      await expect.poll(() => time.textContent()).toBe("2026-06-30 22:59:59.000");
      await page.goto("/ops/orders?from=2026-01-05T10%3A00&col=order&col=updated");
      await page.locator(".account summary").click();
      await page.getByRole("button", { name: "Use local time" }).click();
      expect(await page.locator("input[name='from']").inputValue()).toBe("2026-01-05T11:00");
      expect(await page.locator(".as-of").textContent()).toContain("times in Europe/Berlin");
      // To the minute, without today's date.
      const order = page.locator("#orders time").first();
      const at = Date.parse((await order.getAttribute("datetime")) ?? "");
      const day = { dateStyle: "short", timeZone: "Europe/Berlin" } as const;
      const isToday = [at, Date.now()].map((each) => new Date(each).toLocaleString("sv", day));
      expect(await order.textContent()).toMatch(
        isToday[0] === isToday[1] ? /^\d\d:\d\d$/ : /^\d{4}-\d\d-\d\d \d\d:\d\d$/,
      );
      await page.getByRole("button", { name: "Show" }).click();
      await page.waitForURL("**from=2026-01-05T10%3A00**");
      expect(troubles).toEqual([]);
    });
    await pool.query("delete from mirror.coverage_breaches where reference = 'ORD-1001'");
  });

  it("draw the figures of a source's table as charts, and keep the chosen range", async () => {
    await withTab(DESKTOP, async ({ page, troubles }) => {
      await logIn(page, "operator", "/ops/sources/live");
      expect(await page.locator("#charts canvas").count()).toBe(3);
      expect(await page.locator("#figures table").isVisible()).toBe(false);
      await page.getByRole("link", { name: "7 d", exact: true }).click();
      await page.waitForURL("**range=7d**");
      await page.locator("#charts .u-over").nth(1).hover();
      await page.locator("#charts .u-legend").first().getByText("Time").first().waitFor();
      await page.locator("#figures summary").click();
      await page.locator("#figures tbody a").first().click();
      await page.waitForURL("**/ops/orders?source=live&from=*&until=*");
      expect(troubles).toEqual([]);
    });
  });

  it("announce what would move the list, and keep everything else true meanwhile", async () => {
    await withTab(DESKTOP, async ({ page, troubles }) => {
      await page.clock.install();
      await logIn(page, "operator", "/ops/orders?is=open");
      const names = () => page.locator("#orders tbody a.name").allTextContents();
      const before = await names();
      const text = (selector: string) => async () => {
        renew();
        await page.clock.runFor(5_000);
        return (await page.locator(selector).allTextContents()).join(" ").replaceAll(/\s+/g, " ").trim();
      };
      await pool.query(`
        insert into mirror.orders
        select (jsonb_populate_record(o, jsonb_build_object('reference', 'NEW-1', 'version', mirror.nanos_of(clock_timestamp())))).*
        from mirror.orders o where reference = 'ORD-1002';
        update mirror.orders set status = 'cancelled' where reference = 'ORD-1005'`);
      await expect.poll(text("#pill")).toBe("1 new, 1 left this list: show");
      expect(await names()).toEqual(before);
      expect(await page.locator("tr.left a.name").allTextContents()).toEqual(["ORD-1005"]);
      // How far the data reaches and the counts do not wait for anybody.
      const polled = "(extract(epoch from now() - interval '20 minutes') * 1000000000)::bigint";
      await pool.query(`update mirror.poll_state set polled_through = ${polled}, trouble = 'away', last_error = 'x',
        failing_since = now() - interval '20 minutes', last_cycle_ended_at = now() where source_id = 'live'`);
      await expect.poll(text("#freshness")).toContain("▲ Data up to");
      await pool.query("update mirror.orders set status = 'cancelled' where reference = 'ORD-1006'");
      await expect.poll(text("#pill")).toBe("1 new, 2 left this list: show");
      expect(await text("#found")()).toContain("20 orders");
      // What is taken back needs no button any more.
      await pool.query(`delete from mirror.orders where reference = 'NEW-1';
        update mirror.orders set status = 'created' where reference in ('ORD-1005', 'ORD-1006')`);
      await expect.poll(() => text("#pill")().then(() => page.locator("#pill").isVisible())).toBe(false);
      expect(await page.locator("tr.left").count()).toBe(0);
      await pool.query("update mirror.orders set status = 'cancelled' where reference = 'ORD-1005'");
      await expect.poll(text("#pill")).toBe("1 left this list: show");
      await page.locator("#pill").click();
      await expect.poll(names).toEqual(before.filter((name) => name !== "ORD-1005"));
      expect(await page.locator("#pill").isVisible()).toBe(false);
      // Every list does the same.
      await page.goto("/ops/quarantine");
      await pool.query(`insert into mirror.quarantine (source_id, via, reason, reference)
        values ('live', 'poll', 'wrong_mode', 'NEW-2')`);
      await expect.poll(text("#pill")).toBe("1 new: show");
      await pool.query("delete from mirror.quarantine where reference = 'NEW-2'");
      const known = await page.request.get("/ops/actions");
      const again = await page.request.get("/ops/actions", {
        headers: { "If-None-Match": known.headers()["etag"] ?? "" },
      });
      expect([known.status(), again.status()]).toEqual([200, 304]);
      expect(troubles).toEqual([]);
    });
    await pool.query("update mirror.orders set status = 'created' where reference = 'ORD-1005'");
  });

  it("keep themselves up to date, and say so when they cannot", async () => {
    await withTab(DESKTOP, async ({ page, troubles }) => {
      await page.clock.install();
      await logIn(page, "operator", "/ops?did=pause&on=source+live&many=1");
      // What was done is said once.
      expect(await page.locator(".done").textContent()).toContain("source live: Polling is paused");
      expect(new URL(page.url()).search).toBe("");
      const reads = (part: string, words: string) =>
        expect
          .poll(async () => {
            renew();
            await page.clock.runFor(5_000);
            return page.locator(part).textContent();
          })
          .toContain(words);
      await reads("#updates-word", "● Updated");
      await pool.query(
        "insert into mirror.quarantine (source_id, via, reason) values ('live', 'webhook', 'not_json')",
      );
      await page.locator("#sources + div a.name").focus();
      await reads("main", "3 events or reads of live");
      const focus = (of: string) => page.evaluate(`document.activeElement.${of}`);
      expect(await focus("textContent")).toBe("live");
      await page.keyboard.press("/");
      expect(await focus("name")).toBe("q");
      await page.getByRole("button", { name: "Pause" }).click();
      await reads("#updates-word", "paused by you");
      await page.getByRole("button", { name: "Pause" }).click();
      // A proxy in front fails temporarily.
      await page.route("**/ops", (route) => route.fulfill({ status: 502, body: "Bad gateway" }));
      await reads("#updates-word", "Not updating: the server answers 502");
      await page.unroute("**/ops");
      await reads("#updates-word", "● Updated");
      await page.goto(ORDER);
      await page.locator("#order summary").last().click();
      await pool.query(
        "insert into mirror.refetches (source_id, reference, reason) values ('live', 'ORD-1001', 'x')",
      );
      await reads("#order", "Waiting for a single read");
      expect(await page.locator("#order details").last().getAttribute("open")).toBe("");
      await pool.query("delete from mirror.refetches");
      await page.context().clearCookies();
      await reads("#updates-word", "your login has ended");
      expect(troubles.filter((trouble) => !trouble.includes("status of 502"))).toEqual([]);
    });
  });

  it("are used with the keyboard alone and without JavaScript: log in, find an order, have it read again, log out", async () => {
    await withTab({ ...DESKTOP, javaScriptEnabled: false }, async ({ page, troubles }) => {
      const { keyboard } = page;
      const enter = async (text: string) => {
        await keyboard.type(text);
        await keyboard.press("Enter");
      };
      await page.goto("/ops");
      // The browser focuses the only field once the page is loaded.
      const focused = page.locator("input[name='password']:focus");
      await focused.waitFor();
      await enter("a guess");
      await page.getByRole("alert").getByText("Wrong password").waitFor();
      await focused.waitFor();
      await enter(PASSWORDS.operator);
      await page.waitForURL("**/ops");
      await keyboard.press("Tab");
      expect(await page.locator(":focus").textContent()).toBe("Skip to content");
      expect((await page.locator(":focus").boundingBox())?.x).toBeGreaterThanOrEqual(0);
      await page.getByRole("searchbox").focus();
      await enter("shop-ORD-1001");
      await page.waitForURL(`**${ORDER}`);
      await page.getByRole("button", { name: "Read again from the provider" }).press("Enter");
      await page.getByRole("status").getByText("Waiting for a single read").waitFor();
      expect((await pool.query("select reference from mirror.refetches")).rows).toHaveLength(1);
      await page.locator(".account summary").press("Enter");
      await page.getByRole("button", { name: "Log out" }).press("Enter");
      await page.waitForURL("**/ops/login");
      expect(troubles.filter((trouble) => !trouble.includes("status of 401"))).toEqual([]);
    });
  });
});

const NO_FAULTS = { wide: 0, cut: [], broken: [], small: [] };

/**
 * Finds what is wrong with the layout of a page:
 * - `wide`: pixels by which it is wider than the window.
 * - `cut`: tables shown as cards that are wider than a narrow window: what lies beside it nobody looks for.
 * - `broken`: words that are broken across lines, found by the boxes in which they are drawn. Names of unknown length
 *   and words longer than the window may break, and so may text that is copied rather than read.
 * - `small`: controls smaller than 24 by 24 px (WCAG 2.2, 2.5.8); links within a sentence are exempt.
 */
function findFaults(page: Page): Promise<Record<keyof typeof NO_FAULTS, unknown>> {
  return page.evaluate(`(() => {
    const cut = [...document.querySelectorAll(".wide:has(tr)")]
      .filter((place) => getComputedStyle(place.querySelector("tr")).display !== "table-row")
      .filter((place) => place.scrollWidth > place.clientWidth)
      .map((place) => place.ariaLabel);
    const broken = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const parent = node.parentElement;
      if (!parent.checkVisibility() || parent.closest("script, option, pre, .hidden-text")) continue;
      for (const { 0: word, index } of node.data.matchAll(/[\\p{L}\\p{N}_.:]+/gu)) {
        if (word.length > 30) continue;
        const range = document.createRange();
        range.setStart(node, index);
        range.setEnd(node, index + word.length);
        const lines = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)));
        if (lines.size > 1) broken.push(word);
      }
    }
    const small = [...document.querySelectorAll("a, button, input, select, textarea, summary")]
      .filter((control) => control.checkVisibility() && control.type !== "hidden" && !control.matches(".skip"))
      .filter((control) => !(control.matches("a") && getComputedStyle(control).display === "inline"))
      .filter((control) => {
        const target = (control.type === "checkbox" && control.closest("label")) || control;
        const { width, height } = target.getBoundingClientRect();
        return width < 23.5 || height < 23.5;
      })
      .map((control) => control.outerHTML.slice(0, 100));
    const { scrollWidth, clientWidth } = document.documentElement;
    return { wide: scrollWidth - clientWidth, cut, broken, small };
  })()`);
}

/** How many bytes of the page and everything that it loads are sent. */
function weigh(page: Page): Promise<number> {
  return page.evaluate(`[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)`);
}

/** Visible controls that only a script could make work: of a page without JavaScript there should be none. */
function deadControls(page: Page): Promise<string[]> {
  return page.evaluate(`[...document.querySelectorAll("button, input, select")]
    .filter((control) => control.checkVisibility() && control.type !== "hidden" && !control.form && !control.disabled)
    .map((control) => control.outerHTML.slice(0, 100))`);
}
