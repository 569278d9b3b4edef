import pg from "pg";
import { afterAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { diagnose } from "../../../src/cli/doctor/doctor.ts";
import { examine, type Check, type CheckFinding, type Patient } from "../../../src/cli/doctor/checks.ts";
import { makePool } from "../../../src/database/database.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { loadConfig } from "../../../src/config/environment.ts";
import { openServedMirror } from "../../support/mirror/served.ts";
import { runCommand } from "../../support/programs/command.ts";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { startSandbox } from "../../../src/sandbox/startSandbox.ts";
import { createDatabase, withDatabase } from "../../support/servers/database.ts";
import { startOwnPostgres } from "../../support/servers/ownPostgres.ts";
import { addSource } from "../../support/mirror/orders.ts";
import { canStartRedis, startRedis } from "../../support/servers/redis.ts";
import { serve } from "../../support/http/serve.ts";
import { WEBHOOK_SECRET } from "../../support/signing/signing.ts";
import { EMPTY_MIRROR, emptying } from "../../support/mirror/tables.ts";

/** A separate server: a role belongs to the whole server, and other files need theirs. */
const postgres = await startOwnPostgres();
const pool = makePool({ url: postgres.url, purpose: "test", max: 2, statementTimeoutMs: 10_000 });
await addSource(pool, "live");
await createDatabase(postgres.url, "bare");
const sandbox = await startSandbox({ databaseUrl: postgres.url, port: 0, seed: 1 });
afterAll(async () => {
  await sandbox.close();
  await pool.end();
  await postgres.remove();
});

/** Nobody listens there. */
const nowhere = `127.0.0.1:${await findFreePort()}`;
const HOUR = 3_600_000_000_000n;
const now = () => systemClock.now();

beforeEach(async () => {
  await pool.query(EMPTY_MIRROR);
  await pool.query(
    "insert into mirror.leases (name, holder, fence, expires_at, server) values ('poll:live', 'host:1', 1, now() + interval '1 hour', mirror.server_identity())",
  );
  await pool.query(
    `insert into mirror.poll_state (source_id, history_since, polled_through, safe_through, last_cycle_started_at, last_cycle_ended_at)
     values ('live', $1, $2, $3, now(), now())`,
    [now() - 5n * HOUR, now(), now() - HOUR / 4n],
  );
  await cover(now() - 5n * HOUR, now() - HOUR / 4n);
});

const cover = (since: bigint, until: bigint) =>
  pool.query(
    `insert into mirror.coverage (source_id, since, until, sweep, proved, fence, requests, orders, started_at)
     values ('live', $1, $2, 'delayed', true, 1, 1, 0, now())`,
    [since, until],
  );

function makeEnv(more: Record<string, string> = {}): Record<string, string> {
  return {
    DATABASE_URL: postgres.url,
    DELIVERY_BASE_URL: sandbox.url,
    DELIVERY_LIVE_API_KEY: "dos_live_sandbox",
    DELIVERY_LIVE_WEBHOOK_SECRETS: WEBHOOK_SECRET,
    PORT: "1",
    METRICS_TOKEN: "a-token-of-the-metrics",
    ...more,
  };
}
const readConfigOf = (env: Record<string, string>) => () => loadConfig(env, null);

async function run(env = makeEnv(), publicUrl: string | null = null) {
  return diagnose({ readConfig: readConfigOf(env), publicUrl });
}
/** Returns the findings, without those for this test server, which is not durable on purpose. */
function troubles(findings: readonly CheckFinding[]): string[] {
  return findings
    .filter(
      ({ level, condition, sentence }) =>
        (level === "problem" || condition !== undefined) &&
        !/^(fsync|synchronous_commit) is off/.test(sentence),
    )
    .map(({ check, sentence, fix }) => `${check}: ${sentence} → ${fix ?? "NO FIX"}`);
}

/** The real web process on a free port. */
async function startWebOf(env: Record<string, string>): Promise<Record<string, string>> {
  const port = String(await findFreePort());
  const config = readConfigOf({ ...env, PORT: port })();
  const { close } = await openServedMirror({ config, databaseUrl: postgres.url });
  onTestFinished(close);
  return { ...env, PORT: port };
}

describe("doctor", () => {
  it("finds no problem in a sound installation", async () => {
    const env = await startWebOf(makeEnv());
    const { findings, skipped } = await run(env);
    expect(troubles(findings)).toEqual([]);
    expect(skipped).toEqual([]);
    const endpoint = findings.find(({ check }) => check === "webhook endpoint");
    expect(endpoint).toMatchObject({ level: "ok", sentence: expect.stringContaining("refuses an unsigned") });
    const { rows } = await pool.query("select 1 from mirror.inbox");
    expect(rows).toEqual([]);
  });

  it.runIf(canStartRedis)("reports a Redis that evicts jobs", async () => {
    const redis = await startRedis("--maxmemory-policy", "allkeys-lru");
    onTestFinished(() => redis.stop());
    const { findings } = await run(makeEnv({ REDIS_URL: redis.url }));
    expect(troubles(findings)).toEqual([expect.stringMatching(/^queue: .*allkeys-lru.*→ .*noeviction/)]);
  });

  it("reports a clock that is off by a minute", async () => {
    await fetch(`${sandbox.url}/_sandbox/faults`, { method: "POST", body: '{"clockSkewMs":60000}' });
    onTestFinished(async () => {
      await fetch(`${sandbox.url}/_sandbox/faults`, { method: "POST", body: '{"clockSkewMs":0}' });
    });
    const { findings } = await run();
    expect(troubles(findings)).toEqual([
      expect.stringMatching(/^provider: This machine's clock is (58|59|60) s behind.*→ Run a time service/),
    ]);
  });

  it("reports an address that redirects, accepts everything, or does not know the source", async () => {
    for (const status of [308, 200, 404, 502]) {
      const server = await serve((_req, res) => void res.status(status).set("Location", "/x").send());
      const { findings } = await run(makeEnv(), server.url);
      await server.close();
      const sentence = `answers ${status}, which is not order-mirror's refusal of an unsigned call`;
      expect(troubles(findings)).toEqual([expect.stringContaining(sentence)]);
    }
  });

  it("takes an address as it was pasted, and warns of one without encryption", async () => {
    const pasted = ["doctor", "--json", "--url", "http://nowhere.invalid/webhooks/live"];
    const { code, stdout } = await runCommand(pasted, { env: makeEnv() });
    const { findings } = JSON.parse(stdout) as { findings: CheckFinding[] };
    const said = findings.filter(({ check }) => check === "webhook endpoint");
    expect([code, ...said.map(({ level, sentence }) => `${level}: ${sentence}`)]).toEqual([
      3,
      expect.stringMatching(
        /^problem: The webhook address http:\/\/nowhere\.invalid\/webhooks\/live cannot be reached/,
      ),
      "warning: http://nowhere.invalid is not https, so events travel unencrypted.",
    ]);
  });

  // The other conditions, on this surface too: health/conditions.
  it("reports a condition of the mirror with its remedy: a gap, and the command that closes it", async () => {
    await pool.query(emptying("coverage"));
    const gapSince = now() - 3n * HOUR;
    await cover(now() - 5n * HOUR, gapSince);
    await cover(now() - 2n * HOUR, now());
    await pool.query("update mirror.poll_state set safe_through = $1", [gapSince]);
    expect(troubles((await run()).findings)).toEqual([]);
    await pool.query("update mirror.coverage set ended_at = now() - interval '15 minutes'");
    const { findings } = await run();
    expect(troubles(findings)).toEqual([
      expect.stringMatching(
        /^coverage: Changes of live may be missing between .*→ `order-mirror backfill --source live --from 20/,
      ),
    ]);
  });

  it("reports a reader role that is missing or has no rights", async () => {
    await pool.query("drop owned by order_mirror_reader");
    const bare = await run();
    const lacks = expect.stringMatching(
      /^reader role: .*order_mirror_reader is missing or lacks its rights.*→ .*prepare_reader/,
    ) as unknown;
    expect(troubles(bare.findings)).toEqual([lacks]);
    await pool.query("drop role order_mirror_reader");
    onTestFinished(async () => {
      await pool.query("call mirror.prepare_reader()");
    });
    const { findings } = await run();
    expect(troubles(findings)).toEqual([lacks]);
  });

  it.each<[what: string, says: RegExp, env: Record<string, string>]>([
    [
      "a key of the wrong mode by its infix",
      /^configuration: DELIVERY_LIVE_API_KEY belongs to live mode but holds a test key.*→ Replace it/,
      { DELIVERY_LIVE_API_KEY: "dos_test_sandbox" },
    ],
    [
      "a key that the provider does not know",
      /^provider: live: the provider does not know the key\. → Copy/,
      { DELIVERY_LIVE_API_KEY: "dos_live_unknown" },
    ],
    [
      "a database that is unreachable",
      /^postgres: .*cannot be reached.*→ Start it/,
      { DATABASE_URL: `postgres://u@${nowhere}/x` },
    ],
    [
      "a database that does not exist",
      /^postgres: .*no database nosuch.*→ Create/,
      { DATABASE_URL: withDatabase(postgres.url, "nosuch") },
    ],
    [
      "missing migrations",
      /^migrations: The database lacks .*migrations.*→ Run `order-mirror migrate`/,
      { DATABASE_URL: withDatabase(postgres.url, "bare") },
    ],
  ])(
    "reports %s, and without a configuration or a current database runs no other check",
    async (_, says, env) => {
      const { findings, skipped } = await run(makeEnv(env));
      expect(troubles(findings)).toEqual([expect.stringMatching(says)]);
      expect(skipped.includes("mirror")).toBe(
        /^(?:configuration|postgres|migrations)/.test(says.source.slice(1)),
      );
    },
  );
});

it("lets no check delay the others", async () => {
  const hangs: Check = () => new Promise(() => undefined);
  const fails: Check = () => Promise.reject(new pg.DatabaseError("x", 1, "error"));
  const findings = await examine({} as Patient, { hangs, fails }, 50);
  expect(findings).toMatchObject([
    { check: "hangs", level: "problem", sentence: expect.stringContaining("No answer within") },
    { check: "fails", level: "problem" },
  ]);
});
