import { describe, expect, it } from "vitest";
import { openOpsPages } from "../../support/pages/opsServer.ts";
import { makePool } from "../../../src/database/database.ts";
import { makeOpsRouter } from "../../../src/ops/opsRouter.ts";
import { findChromium } from "../../support/pages/chromium.ts";
import { NO_BROWSER, openBrowser, openTab } from "../../support/pages/browser.ts";
import { serve } from "../../support/http/serve.ts";

const PATIENCE = { timeout: 60_000 };

const OPEN = { opsPassword: null, opsViewerPassword: null, localTrust: true };

const { database, board, deps, url, read } = await openOpsPages({ config: OPEN });
await board.queue.add("events", { seqs: [1] });

describe("the overview", () => {
  it("shows what is in the database and nothing else", async () => {
    expect((await read("/ops")).text).toContain("No source is configured yet.");
    await database.pool.query(`
      insert into mirror.sources (source_id, mode, base_url) values ('live', 'live', ''), ('test', 'test', '')`);
    await database.pool.query(`
      insert into mirror.poll_state (source_id, safe_through, last_cycle_started_at, last_cycle_ended_at)
      select 'live', ((extract(epoch from clock_timestamp()) - 90.5) * 1000000000)::bigint,
        clock_timestamp() - interval '11.5 s', clock_timestamp() - interval '10.5 s'`);
    await database.pool.query(`
      insert into mirror.pending (seq, source_id, received_at)
      select n, 'live', clock_timestamp() - make_interval(secs => 65.5 - n) from generate_series(0, 2) n`);
    await database.pool.query(`
      insert into mirror.quarantine (source_id, via, reason, state)
      values ('live', 'webhook', 'not_json', 'open'), ('live', 'webhook', 'not_json', 'dismissed')`);
    const fresh = await serve(makeOpsRouter(deps));
    const page = await (await fetch(`${fresh.url}/ops`)).text();
    const text = page.replaceAll(/<[^>]+>/g, " ").replaceAll(/\s+/g, " ");
    await fresh.close();
    expect(text).toMatch(
      /▲ 1 event or read of live could not be processed\. Between us and the provider since .* Details /,
    );
    expect(text).toMatch(/Rate used live [-\d]+ \d\d:\d\d .*3 1 0 % test not yet/);
  });

  it("reports that the database does not answer", async () => {
    const nowhere = "postgres://127.0.0.1:1/x";
    const away = makePool({ url: nowhere, purpose: "ops", max: 1, statementTimeoutMs: 500 });
    const stranded = await serve(makeOpsRouter({ ...deps, pool: away }));
    const response = await fetch(`${stranded.url}/ops`);
    expect(response.status).toBe(503);
    expect(await response.text()).toContain("The database does not answer");
    await stranded.close();
    await away.end();
  });

  it("answers other addresses with 404", async () => {
    expect((await read("/ops/nothing")).status).toBe(404);
  });
});

describe("the queues", () => {
  it("have a page, whose dashboard may load and run only what is here", async () => {
    expect((await read("/ops/queue-health")).text).toContain("Queue Losing a job loses no event");
    const response = await fetch(`${url}/ops/queues`);
    expect(await response.text()).toContain('src="static/js/');
    const policy = response.headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self';");
    expect(policy).not.toMatch(/https?:|\*|script-src[^;]*unsafe/);
  });

  it("forbid other pages to load or execute anything from elsewhere", async () => {
    for (const path of ["/ops/queue-health", "/ops/sources/live", "/ops/nothing"]) {
      const response = await fetch(url + path);
      const policy = response.headers.get("content-security-policy") ?? "";
      expect(policy).toContain("default-src 'none'; style-src 'self'; script-src 'self';");
      expect(policy).not.toMatch(/https?:|\*|unsafe/);
      expect(policy).toContain("frame-ancestors 'none'");
    }
  });
});

describe.skipIf(findChromium() === undefined)("in a browser (not run: no chromium found)", () => {
  it("the overview updates itself and violates no content policy", async () => {
    const browser = await openBrowser();
    if (browser === undefined) throw new Error(NO_BROWSER);
    try {
      const { page, troubles } = await openTab(browser, url);
      await page.goto("/ops");
      await expect.poll(() => page.locator("#updates-word").textContent(), PATIENCE).toContain("● Updated");
      const waits = (count: number) =>
        database.pool.query(
          `insert into mirror.quarantine (source_id, via, reason)
           select 'live', 'webhook', 'not_json' from generate_series(1, $1)`,
          [count],
        );
      await waits(5);
      const said = () => page.locator("main").textContent();
      await expect.poll(said, PATIENCE).toContain("6 events or reads of live");
      await page.getByRole("button", { name: "Pause" }).click();
      await expect
        .poll(() => page.locator("#updates-word").textContent(), PATIENCE)
        .toContain("paused by you");
      await page.getByRole("button", { name: "Pause" }).click();
      // A proxy in front fails temporarily.
      await page.route("**/ops", (route) => route.fulfill({ status: 502, body: "Bad gateway" }));
      await expect
        .poll(() => page.locator("#updates-word").textContent(), PATIENCE)
        .toContain("Not updating: the server answers 502");
      await page.unroute("**/ops");
      await waits(3);
      await expect.poll(said, PATIENCE).toContain("9 events or reads of live");
      await expect.poll(() => page.locator("#updates-word").textContent(), PATIENCE).toContain("● Updated");
      expect(troubles.filter((trouble) => !trouble.includes("status of 502"))).toEqual([]);
    } finally {
      await browser.close();
    }
  });
});
