import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Browser } from "playwright-core";
import { orderAddress } from "../../../src/health/pageAddresses.ts";
import { insertOrder, orderText, addSource } from "../../support/mirror/orders.ts";
import { lost } from "../../support/mirror/tables.ts";
import {
  COLOUR_RULES,
  findBarriers,
  findChromium,
  NO_BROWSER,
  openBrowser,
  openTab,
  overflow,
  type Look,
} from "../../support/pages/browser.ts";
import { calls, FAULTS, poll, WELL } from "../../support/pages/faults.ts";
import { openOpsPages } from "../../support/pages/opsServer.ts";

// With PICTURES=write (`npm run screenshots`) the pictures of the states are taken again, for people to look at.

const PICTURES = new URL("pictures/", import.meta.url).pathname;
/** `inSight`: how many orders are wholly in sight at least. */
const SIZES = [
  { width: 390, height: 844, colorScheme: "dark", inSight: 9 },
  { width: 1280, height: 800, colorScheme: "light", inSight: 16 },
] as const;
const NANOS = "(extract(epoch from clock_timestamp()) * 1000000000)::bigint";
const away = (minutes: number) =>
  poll(`last_error = 'GET /v1/orders failed', trouble = 'away', failing_since = now() - interval '${minutes} minutes',
    polled_through = ${NANOS} - ${minutes} * 60000000000, safe_through = ${NANOS} - ${minutes + 1} * 60000000000`);
const fault = (name: string) => FAULTS.flat().find(([each]) => each === name)?.[2] ?? "";

/** What is wrong, whose fault it is, since when, and what to do: the first thing on the page. */
const STATES: readonly (readonly [name: string, statement: string, verdict: RegExp])[] = [
  ["all is good", "select 1", /^✔ All good\. Complete up to \d\d:\d\d \(1 min \d+ s ago\)\.$/],
  [
    "a new source has not been read",
    `update mirror.sources set created_at = now(); ${poll("safe_through = null")}`,
    /^… Starting: live not verified yet\.$/,
  ],
  [
    "the worker is dead",
    fault("EventsWait"),
    /^✖ 1 event of live waiting\. No worker is keeping up\. On our side since .* \(7 min \d+ s\)\. Start order-mirror/,
  ],
  [
    "the provider is away for four minutes",
    away(4),
    /^… Watching: Polls of live get no usable answer .* \(4 min \d+ s; alerts at 10 min\)\. Check the/,
  ],
  [
    "the provider is away for eleven minutes",
    away(11),
    /^▲ Polls of live get no usable answer .* At the provider, or on the way to it since .* \(11 min \d+ s\)\. Check the/,
  ],
  [
    "every webhook is refused",
    `update mirror.sources set event_grace = '5 minutes';
     ${calls("wrong_signature", 12)} ${lost(1, "1 minute", { counted: false })}`,
    /^✖ Every webhook of live is refused \(12 calls\): the secret or WEBHOOK_SCHEME is wrong\. Between us and the provider/,
  ],
];

const TRICK = `<b onclick=alert(1)>A\u202Egnirts\u200B</b> ${"long ".repeat(30)}${"x".repeat(200)}`;
const ORDERS: readonly (readonly [name: string, reference: string, says: RegExp])[] = [
  [
    "an order with hostile text",
    `DO-\u202E1<script>alert(1)</script>${"9".repeat(60)}`,
    /Order DO-⟨U\+202E⟩1<script>.* Fleet <b onclick=alert\(1\)>A⟨U\+202E⟩gnirts/,
  ],
  ["a gone order", "DO-GONE", /✖ The provider no longer has this order, found /],
];

const { database, url, as, renew } = await openOpsPages();
await addSource(database.pool, "live");

describe.skipIf(findChromium() === undefined)(`the pages in eight states (else ${NO_BROWSER})`, () => {
  let browser: Browser;
  /** A phone and a screen, each in a theme of its own: colours do not depend on the size. */
  let looks: (Look & (typeof SIZES)[number])[];

  beforeAll(async () => {
    const opened = await openBrowser();
    if (opened === undefined) throw new Error(NO_BROWSER);
    browser = opened;
    looks = await Promise.all(
      SIZES.map(async (size) => {
        const options = { extraHTTPHeaders: as("operator"), viewport: size, colorScheme: size.colorScheme };
        return { ...size, ...(await openTab(browser, url, options)) };
      }),
    );
  });
  afterAll(() => browser.close());

  async function takePictures({ page, width }: (typeof looks)[number], name: string): Promise<void> {
    if (process.env["PICTURES"] !== "write") return;
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      const theme = colorScheme === "dark" ? "-dark" : "";
      await page.screenshot({ path: `${PICTURES}${name.replaceAll(" ", "-")}-${width}${theme}.png` });
    }
  }

  /**
   * Opens the page at each size: its first part says `says`, in sight and in colours that can be read. Its other barriers
   * are looked for by opsBrowser.test.ts, which visits the same pages in one state. Returns what the browser reports.
   */
  async function visit(name: string, address: string, part: string, says: RegExp): Promise<string[]> {
    renew();
    await Promise.all(
      looks.map(async (look) => {
        const { page, width, colorScheme } = look;
        await page.emulateMedia({ colorScheme });
        await page.goto(address);
        const text = await page.locator(part).innerText();
        expect(text.replaceAll(/\s+/g, " ").trim()).toMatch(says);
        // The four tiles, too, where there are some.
        const isInSight = await page.evaluate(
          `document.querySelector("${part}").getBoundingClientRect().y < innerHeight / 2 &&
            [...document.querySelectorAll(".tiles")].every((tiles) => tiles.getBoundingClientRect().bottom <= innerHeight)`,
        );
        const barriers = await findBarriers(page, COLOUR_RULES);
        const faults = { overflow: await overflow(page), barriers };
        expect({ width, isInSight, ...faults }).toEqual({
          width,
          isInSight: true,
          overflow: 0,
          barriers: [],
        });
        await takePictures(look, name);
      }),
    );
    return looks.flatMap(({ troubles }) => troubles);
  }

  it.each(STATES)("say at once that %s", async (name, statement, verdict) => {
    await database.pool.query(`${WELL}; ${statement}`);
    expect(await visit(name, "/ops", "#verdict", verdict)).toEqual([]);
  });

  it.each(ORDERS)("say at once what %s is", async (name, reference, says) => {
    const isGone = name === "a gone order";
    const names = isGone ? {} : { externalOrderId: TRICK, fleet: { name: TRICK } };
    await database.pool.query(WELL);
    await insertOrder(database.pool, "live", orderText({ reference, ...names }));
    if (isGone)
      await database.pool.query(
        "update mirror.orders set gone_at = now(), horizon = horizon + 1 where reference = $1",
        [reference],
      );
    expect(await visit(name, orderAddress({ sourceId: "live", reference }), "main", says)).toEqual([]);
  });

  it("show sixteen orders on a screen and nine on a phone, with nothing clipped", async () => {
    await database.pool.query(WELL);
    const statuses = ["created", "picked_up", "arrived_for_delivery", "cancelled"] as const;
    for (let n = 0; n < 30; n += 1) {
      const deliveryTime = new Date(Date.now() - (n - 25) * 120_000).toISOString();
      const reference = `DO-WMWMWMWMWM${n + 10}`;
      const order = {
        reference,
        status: statuses[n % 4] ?? "created",
        fleet: { name: "Swift" },
        deliveryTime,
      };
      await insertOrder(database.pool, "live", orderText({ ...order, externalOrderId: `shop-${n}` }));
    }
    await database.pool.query(poll(`polled_through = ${NANOS} - 600000000000`));
    renew();
    for (const look of looks) {
      const { page, width, inSight } = look;
      await page.goto("/ops/orders");
      await page
        .getByRole("button", { name: "Copy DO-WMWMWMWMWM39", includeHidden: true })
        .waitFor({ state: "attached" });
      expect(await page.locator("#orders").innerText()).toMatch(/unknown since \d\d:\d\d/);
      expect(await overflow(page, "#orders .wide")).toBe(0);
      const clipped = await page.evaluate<number>(
        `[...document.querySelectorAll(".ref .cap")].filter((name) => name.textContent.startsWith("DO-WM") && name.scrollWidth > name.clientWidth).length`,
      );
      const seen = await page.evaluate<number>(
        `[...document.querySelectorAll("#orders tbody tr")]
          .filter((row) => row.getBoundingClientRect().bottom <= innerHeight).length`,
      );
      expect({ width, clipped, areEnough: seen >= inSight, seen }).toEqual({
        width,
        clipped: 0,
        areEnough: true,
        seen,
      });
      await takePictures(look, "the list of orders");
    }
  });
});
