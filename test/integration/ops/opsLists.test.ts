import { describe, expect, it } from "vitest";
import { makePool } from "../../../src/database/database.ts";
import { makeOpsRouter } from "../../../src/ops/opsRouter.ts";
import { serve } from "../../support/http/serve.ts";
import { OPEN, openOpsPages } from "../../support/pages/opsServer.ts";
import { announced, emptying, lost } from "../../support/mirror/tables.ts";

const { database, queue, deps, url, as, read } = await openOpsPages();
await database.pool.query(`
    insert into mirror.sources (source_id, mode, base_url, provider)
    values ('live', 'live', 'http://provider.example', 'provider.example/live'), ('test', 'test', '', null)`);

const TIME = "[-\\d]+ [:.\\d]+";
const nextOf = (page: string) => /href="([^"]+)" rel="next"/.exec(page)?.[1]?.replaceAll("&amp;", "&");

/** The first cells of all rows on all pages from this one on. */
async function walk(path: string, pattern: RegExp): Promise<string[]> {
  const found: string[] = [];
  for (let next: string | undefined = path; next !== undefined;) {
    const { page, status } = await read(next);
    expect(status).toBe(200);
    found.push(...[...page.matchAll(pattern)].map(([, text = ""]) => text));
    next = nextOf(page);
  }
  return found;
}

describe("every page", () => {
  it("loads and executes nothing from elsewhere; the dashboard only has its styles inline", async () => {
    for (const path of ["/ops/queue-health", "/ops/sources/live", "/ops/nothing", "/ops/queues"]) {
      const { headers, page, status } = await read(path);
      expect([path, status]).toEqual([path, path === "/ops/nothing" ? 404 : 200]);
      const policy = headers.get("content-security-policy") ?? "";
      const inline = path === "/ops/queues" ? " 'unsafe-inline'" : "";
      expect(policy).toContain(`default-src 'none'; style-src 'self'${inline}; script-src 'self';`);
      expect(policy.replace(inline, "")).not.toMatch(/https?:|\*|unsafe/);
      expect(policy).toContain("frame-ancestors 'none'");
      expect(page.includes('src="static/js/')).toBe(path === "/ops/queues");
    }
  });

  it("says so when the database does not answer", async () => {
    const nowhere = "postgres://127.0.0.1:1/x";
    const away = makePool({ url: nowhere, purpose: "ops", max: 1, statementTimeoutMs: 500 });
    const stranded = await serve(makeOpsRouter({ ...deps, pool: away, config: OPEN }));
    const answer = await fetch(`${stranded.url}/ops`);
    expect([answer.status, await answer.text()]).toEqual([
      503,
      expect.stringContaining("The database does not answer"),
    ]);
    // A press is no address to come back to.
    const pressed = (from?: string) =>
      fetch(`${stranded.url}/ops/pause`, {
        method: "POST",
        headers: { Accept: "text/html", ...(from && { Referer: stranded.url + from }) },
        body: new URLSearchParams({ source: "live" }),
      });
    for (const from of ["/ops/sources/live?range=7d", undefined]) {
      const refused = await pressed(from);
      expect(refused.headers.get("refresh")).toBe(`5; url=${from ?? "/ops"}`);
      expect(await refused.text()).toContain("Whether what you pressed was done is not known");
    }
    await stranded.close();
    await away.end();
  });
});

describe("the lists", () => {
  it("show every row once, page by page, also where keys are equal", async () => {
    // Of one status events are known.
    await database.pool.query(
      `update mirror.sources set created_at = now() - interval '30 days', event_grace = '5 minutes';
       delete from mirror.webhook_hours; ${announced(1)}` +
        lost(60, "1 hour", { counted: false, prefix: "ORD-1" }) +
        lost(60, "1 minute", { counted: false, prefix: "ORD-2" }),
    );
    const references = /\/ops\/orders\/live\/(ORD-\d+)"/g;
    const all = await walk("/ops/lost", references);
    expect([all.length, new Set(all).size]).toEqual([120, 120]);
    expect(all[0]).toMatch(/^ORD-2/);
    expect((await read("/ops/lost")).text).toMatch(
      RegExp(`ORD-2\\d+ live assigned waiting poll ${TIME} \\d{1,2}\\.0 s `),
    );
    expect(await walk("/ops/lost?state=waiting", references)).toHaveLength(60);
    expect(await walk("/ops/lost?source=test", references)).toEqual([]);
  });

  it("keep the choice while paging, and refuse an address that is of no page", async () => {
    const first = (await read("/ops/lost?state=lost&source=live")).page;
    expect(first).not.toContain('rel="first"');
    const next = nextOf(first) ?? "";
    expect(next).toMatch(/^\/ops\/lost\?source=live&state=lost&after=/);
    expect((await read(next)).page).toContain('href="/ops/lost?source=live&amp;state=lost" rel="first"');
    expect((await read("/ops/lost?after=nonsense")).status).toBe(400);
    expect((await read("/ops/walks?after=1'&after=x")).status).toBe(400);
  });

  it("say what would be here", async () => {
    for (const path of ["/ops/gaps", "/ops/breaches", "/ops/tasks", "/ops/refetches", "/ops/exceptions"]) {
      expect((await read(path)).page).toMatch(/class="empty">[A-Z][^<]{20,}\.</);
    }
    expect((await read("/ops/tasks?state=failed")).text).toContain("Nothing matches this choice.");
  });

  /** Rows of a list, how it shows them, and choices that have them and that have none of them. */
  it.each<[path: string, rows: string, says: RegExp, has: string, hasNone: string]>([
    [
      "waiting",
      `with event as (
         insert into mirror.inbox (source_id, event_id, body_hash, body, secret_index) values ('live', 'evt_w', '', '{}', 0)
         returning seq
       ) insert into mirror.pending select seq, 'live', now() - interval '4 minutes' from event`,
      RegExp(`evt_w live ${TIME} 4 min \\d+ s ago`),
      "source=live",
      "source=test",
    ],
    [
      "calls",
      `insert into mirror.calls values ('live', 'webhook', date_trunc('minute', now()), 'wrong_time', 3, now()),
         ('live', 'order-list', date_trunc('minute', now()), 'refused', 7, now())`,
      /live webhook refused: signed too long ago or ahead 3 .*live order-list refused \(429\) 7 /,
      "kind=webhook&outcome=wrong_time",
      "kind=request&outcome=wrong_time",
    ],
    [
      "tasks",
      `insert into mirror.period_requests (source_id, kind, since, until, read_down_to, state, orders, differed)
       values ('live', 'verification', 1000000000, 5000000000, 4000000000, 'running', 9, 2)`,
      RegExp(`verification \\d+ live ${TIME} ${TIME} running 25 9 2 ${TIME}`),
      "kind=verification&state=running",
      "kind=backfill&state=running",
    ],
    [
      "walks",
      `insert into mirror.coverage (source_id, since, until, sweep, fence, requests, orders) values ('live', 1, 2, 'backfill', 1, 3, 44)`,
      RegExp(`live backfill ${TIME} ${TIME} no 3 44 ${TIME}`),
      "sweep=backfill&proved=no",
      "sweep=backfill&proved=yes",
    ],
    [
      "refetches",
      `insert into mirror.refetches (source_id, reference, reason, attempts, last_error) values ('live', 'ORD-8', 'late event', 2, 'status 500')`,
      RegExp(`ORD-8 live late event 2 ${TIME} ${TIME} status 500`),
      "state=failed",
      "state=not+failed",
    ],
    [
      "breaches",
      `insert into mirror.coverage_breaches (source_id, since, until, kind, reference, version, found_by, detail)
       values ('live', 1, 2, 'late_event', 'ORD-7', 1, 'webhook', 'x')`,
      RegExp(`${TIME} live ORD-7 Late event ${TIME} ${TIME} not yet`),
      "state=open",
      "state=closed",
    ],
    [
      "gaps",
      `with hour as (select (extract(epoch from date_trunc('hour', clock_timestamp())) * 1000000000)::bigint as now)
       insert into mirror.coverage (source_id, since, until, sweep, proved, fence, requests, orders)
       select 'live', now - n * 3600000000000, now - (n - 1) * 3600000000000, 'proof', true, 1, 1, 1
       from hour, generate_series(1, 6) n where n not in (2, 4, 5)`,
      RegExp(`live ${TIME} ${TIME} 1 h 0 min .* live ${TIME} ${TIME} 2 h 0 min`),
      "source=live",
      "source=test",
    ],
  ])("of %s show what there is, and only what is chosen", async (list, rows, says, has, hasNone) => {
    await database.pool.query(rows);
    expect((await read(`/ops/${list}`)).text.replaceAll("\u00a0", " ")).toMatch(says);
    expect((await read(`/ops/${list}?${has}`)).text.replaceAll("\u00a0", " ")).toMatch(
      RegExp(says.source.split(" .*")[0] ?? ""),
    );
    expect((await read(`/ops/${list}?${hasNone}`)).text).toContain("Nothing matches this choice.");
  });

  it("name every order that “complete up to” excludes, and why", async () => {
    await database.pool.query(`
      insert into mirror.refetches (source_id, reference, reason, unconfirmed)
      select 'live', 'ORD-UNCONFIRMED-' || n, 'not listed', true from generate_series(1, 60) n;
      insert into mirror.quarantine (source_id, via, reason, quarantined_at)
      select 'live', 'poll', 'unreadable_order', '2026-01-01' from generate_series(1, 60)`);
    expect((await read("/ops/exceptions")).text).toContain(
      "– live what was read of it could not be understood",
    );
    const whole = await walk(
      "/ops/exceptions",
      /(the reads of its time did not show it|could not be understood)/g,
    );
    expect(whole).toHaveLength(120);
    await database.pool.query(
      "delete from mirror.refetches where unconfirmed; delete from mirror.quarantine",
    );
  });

  it("are behind each figure of a source's page", async () => {
    await database.pool.query(lost(2, "2 hours", { prefix: "ORD-3" }));
    const { text, page } = await read("/ops/sources/live");
    expect(text).toMatch(
      /✖ no poller is running .* Exceptions to that 0 Proofs withdrawn 1 Gaps 2 .* Missed webhooks, 24 h 2 of 3 Events waiting 1 Single reads waiting 1 In quarantine 0 .* Identity provider\.example\/live .* Key matches /,
    );
    for (const [list, count] of Object.entries({
      breaches: 1,
      gaps: 2,
      lost: 2,
      waiting: 1,
      refetches: 1,
      quarantine: 0,
    }))
      expect(page).toContain(`<a href="/ops/${list}?source=live">${count}</a>`);
    expect((await read("/ops/sources/none")).status).toBe(404);
  });
});

describe("the queues", () => {
  /** Jobs that a worker has failed for good. */
  async function failJobs(count: number) {
    const { rows } = await database.pool.query<{ seq: string }>(`
      insert into mirror.inbox (source_id, event_id, body_hash, body, secret_index)
      select 'live', 'evt_' || n, sha256(n::text::bytea), '{}', 0 from generate_series(1, 5) n returning seq`);
    const seqs = rows.map(({ seq }) => Number(seq));
    await database.pool.query(
      `insert into mirror.history (source_id, reference, via, verdict, inbox_seq, event_id)
       values ('live', 'ORD-JOB', 'webhook', 'applied', $1, 'evt_1')`,
      [seqs[0]],
    );
    const jobs = Array.from({ length: count }, () => ({
      name: "events",
      data: { seqs },
      opts: { attempts: 1 },
    }));
    await queue.bull.addBulk(jobs);
    const worker = await queue.consume(() => Promise.reject(new Error("the disk is full")));
    await expect.poll(() => queue.bull.getFailedCount()).toBe(count);
    await worker.close();
  }

  const call = (path: string, role: "operator" | "viewer", method = "PUT") =>
    fetch(`${url}/ops/queues/api/queues${path}`, { method, headers: as(role) });
  const actions = async () => {
    const { rows } = await database.pool.query(
      "select target, role, affected::int from mirror.ops_actions where action = 'queue' order by action_id",
    );
    return rows as unknown[];
  };

  it("are in the dashboard, where an operator retries one job or all; each change is in the audit log", async () => {
    await failJobs(3);
    const { name } = queue.bull;
    const [job] = await queue.bull.getFailed();
    expect((await read("/ops/queues")).page).toContain("order-mirror");
    const listed = await call(`?activeQueue=${name}&status=failed`, "operator", "GET");
    expect(await listed.text()).toContain('"failedReason":"Error"');
    expect((await call(`/${name}/${job?.id}/retry`, "operator")).status).toBe(204);
    expect(await queue.bull.getJobCounts("failed", "waiting")).toEqual({ failed: 2, waiting: 1 });
    expect((await call(`/${name}/retry/failed`, "operator")).status).toBe(200);
    expect(await queue.bull.getJobCounts("failed", "waiting")).toEqual({ failed: 0, waiting: 3 });
    await expect.poll(actions).toEqual([
      { target: `${name} ${job?.id} retry`, role: "operator", affected: 1 },
      { target: `${name} retry failed`, role: "operator", affected: 2 },
    ]);
    const { text } = await read(`/ops/queue-health/${name}/${job?.id}`, "viewer");
    expect(text).toMatch(/evt_1 ORD-JOB live evt_2 not decided yet live/);
    expect((await read(`/ops/queue-health/${name}/none`, "viewer")).status).toBe(404);
  });

  it("refuse what would change nothing or make jobs by hand, with a sentence, and a viewer's changes", async () => {
    const { name } = queue.bull;
    const before = await actions();
    await queue.bull.add("events", { seqs: [1] });
    const counts = await queue.bull.getJobCounts();
    const [job] = await queue.bull.getWaiting();
    for (const [path, method] of [
      [`/${name}/pause`, "PUT"],
      ["/pause", "PUT"],
      [`/${name}/empty`, "PUT"],
      [`/${name}/obliterate`, "PUT"],
      [`/${name}/clean/wait`, "PUT"],
      [`/${name}/clean/delayed`, "PUT"],
      [`/${name}/concurrency`, "PUT"],
      [`/${name}/add`, "POST"],
      [`/${name}/${job?.id}/update-data`, "PATCH"],
    ] as const) {
      const answer = await call(path, "operator", method);
      expect([path, answer.status]).toEqual([path, 405]);
      expect(await answer.json()).toMatchObject({ message: expect.stringContaining("jobs only wake") });
    }
    expect(await queue.bull.getJobCounts()).toEqual(counts);
    expect(await queue.bull.isPaused()).toBe(false);
    const listed = await call("", "viewer", "GET");
    expect(await listed.json()).toMatchObject({ queues: [{ name, readOnlyMode: true }] });
    expect((await call(`/${name}/clean/failed`, "viewer")).status).toBe(405);
    expect(await actions()).toEqual(before);
    expect((await call(`/${name}/clean/failed`, "operator")).status).toBe(200);
  });

  it("are beside the figures that the dashboard lacks", async () => {
    await database.pool.query(`
      ${emptying("inbox history pending calls")};
      with event as (
        insert into mirror.inbox (source_id, event_id, body_hash, body, secret_index, received_at)
        select 'live', n::text, '', '{}', 0, now() - interval '4 minutes' from generate_series(1, 21) n returning *
      ), decided as (
        insert into mirror.history (source_id, via, verdict, inbox_seq, seen_at)
        select source_id, 'webhook', 'applied', seq, received_at + event_id::int * interval '1 second' from event
      ) insert into mirror.pending select seq, source_id, received_at from event;
      insert into mirror.calls values ('live', 'webhook', date_trunc('minute', now()), 'accepted', 1500, now()),
        ('live', 'webhook', date_trunc('minute', now()), 'unsigned', 9, now())`);
    expect((await read("/ops/queue-health", "viewer")).text.replaceAll("\u00a0", " ")).toMatch(
      RegExp(
        `Oldest waiting event 4 min \\d+ s ago Events in the last hour 1,500 From event to applied, half of them 11\\.0 s
      From event to applied, 95 % 20\\.0 s Workers of ${queue.bull.name} ✖ No worker is alive\\.`.replaceAll(
          /\s+/g,
          " ",
        ),
      ),
    );
  });
});

describe("the audit log", () => {
  it("is filtered by action, role and part of a person's name", async () => {
    await database.pool.query(`
      insert into mirror.ops_actions (role, person, action, target, affected)
      values ('operator', 'Grace@shop.example', 'dismiss', 'quarantine 7', null), ('command', 'ada', 'export', 'all', 9)`);
    const { text, page } = await read("/ops/actions?person=grace");
    expect(text).toMatch(/Grace@shop\.example operator Dismiss – quarantine 7 end not recorded /);
    expect(page).toContain('href="/ops/quarantine/7"');
    expect(text).not.toContain("ada command");
    expect((await read("/ops/actions?action=export&role=command")).text).toMatch(
      /ada command Export – all 9/,
    );
  });
});
