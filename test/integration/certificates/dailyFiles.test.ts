import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from "node:fs/promises";
import { createWriteStream } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { finished } from "node:stream/promises";
import { afterAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { checkChain } from "../../../src/certificates/checkCertificate.ts";
import { issueCertificate } from "../../../src/certificates/issue.ts";
import { readCertificateOf, readStates } from "../../../src/certificates/readStates.ts";
import { parseKeys } from "../../../src/certificates/signingKey.ts";
import { compareStates } from "../../../src/certificates/states.ts";
import { makeFileStore } from "../../../src/dailyFiles/stores.ts";
import { makePool } from "../../../src/database/database.ts";
import type { Pool } from "../../../src/database/database.ts";
import { formatInstant, instantFromMillis, parseInstant } from "../../../src/domain/order/instant.ts";
import { CONDITIONS } from "../../../src/health/conditions.ts";
import { readStandings } from "../../../src/health/standing.sql.ts";
import { exportOrders } from "../../../src/orders/export/exportOrders.ts";
import { makeWriteDailyFiles } from "../../../src/roles/background/writeDailyFiles.ts";
import type { DailyFiles } from "../../../src/runtime/config/dailyFilesVariables.ts";
import { makeLogger } from "../../../src/runtime/telemetry/logger.ts";
import { readSnapshot } from "../../../src/wire/order.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { orderText } from "../../support/mirror/mirroredOrders.ts";
import { addSource, readAt } from "../../support/mirror/orders.ts";
import { runCommand } from "../../support/programs/command.ts";
import { queryDuckdb } from "../../support/parquet/duckdb.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";
import { startObjectStore } from "../../support/servers/objectStore.ts";
import { mountSmallDisk } from "../../support/servers/smallDisk.ts";
import { makeKeyPem } from "../../support/signing/certificateKeys.ts";

const DAY = 86_400n * 1_000_000_000n;
const HOUR = DAY / 24n;
const KEY = { accessKeyId: "AKIDEXAMPLE", secretAccessKey: "wJalrXUtnFEMI/K7MDENG", region: "eu-central-1" };
const PEM = makeKeyPem();
const keys = parseKeys(PEM, "a test");

const disk = mountSmallDisk(1);
afterAll(() => disk?.unmount());

let database: TestDatabase;
let pool: Pool;
let folder: string;
let logged: string[];
/** The day before yesterday, which is over whatever the time is. */
let since: bigint;
let name: string;

beforeEach(async () => {
  database = await makeTestDatabase();
  pool = makePool({ url: database.url, purpose: "poll", max: 3, statementTimeoutMs: 10_000 });
  folder = await mkdtemp(path.join(tmpdir(), "order-mirror-daily-"));
  logged = [];
  const now = instantFromMillis(Date.now());
  since = now - (now % DAY) - 2n * DAY;
  name = `live/${formatInstant(since).slice(0, 10)}.parquet`;
  await addSource(pool, "live");
  await pool.query(
    "insert into mirror.branches (source_id, branch_id, reference, name, raw) values ('live', 'B1', 'centre', 'Centre', '{}')",
  );
  return async () => {
    await pool.end();
    await database.drop();
    await rm(folder, { recursive: true });
  };
});

const at = (hours: number) => formatInstant(since + BigInt(hours * 3_600) * 1_000_000_000n);

/** Reads an order long after its change, as a poll does. */
async function read(fields: Record<string, unknown> & { readonly updatedAt: string }): Promise<void> {
  const raw = orderText(fields);
  const time = readAt(parseInstant(fields.updatedAt) + HOUR, 5);
  await makeLiveApply(pool).applyReads({
    sourceId: "live",
    via: "poll",
    time,
    snapshots: [readSnapshot(raw, JSON.parse(raw))],
  });
}

/** Proves the three days from the one before, and certifies the day. */
async function certify() {
  await pool.query(
    `insert into mirror.poll_state (source_id, history_since, polled_through, safe_through) values ('live', $1, $2, $2)
     on conflict (source_id) do update set safe_through = excluded.safe_through`,
    [since - DAY, since + 2n * DAY - HOUR],
  );
  return issueCertificate({ pool, keys }, { sourceId: "live", since, until: since + DAY });
}

function makeTask(files: DailyFiles) {
  const logger = makeLogger({
    level: "info",
    format: "json",
    service: "test",
    destination: { write: (line) => void logged.push(line) },
  });
  const ending = new AbortController();
  onTestFinished(() => ending.abort());
  const task = makeWriteDailyFiles({
    pool,
    sourceId: "live",
    place: { certificateKey: PEM, dataDir: "/dev/null/none" },
    files,
    logger,
  });
  const term = { signal: ending.signal } as never;
  return () => task.run({ term, signal: ending.signal });
}

interface Noted {
  readonly serial: number | null;
  readonly orders: number | null;
  readonly failure: string | null;
  readonly written: string | null;
}

async function noted(): Promise<Noted | undefined> {
  const { rows } = await pool.query<Noted>(
    "select serial, orders, failure, written_at::text as written from mirror.daily_files",
  );
  return rows[0];
}

/** Runs the task until what it notes fits. */
async function runUntil(run: () => Promise<unknown>, fits: (found: Noted) => boolean): Promise<Noted> {
  return vi.waitUntil(
    async () => {
      await run();
      const found = await noted();
      return found !== undefined && fits(found) ? found : undefined;
    },
    { timeout: 60_000, interval: 20 },
  );
}

const inFolder = (): DailyFiles => ({ place: folder, bucket: null });
const file = () => path.join(folder, name);

describe("the daily file", () => {
  it("has the certified orders as an export has them, with the certificate and its figures", async () => {
    await read({
      reference: "SAME",
      externalOrderId: "shop-1",
      updatedAt: at(10.5),
      branch: { id: "B1" },
      pickupTime: at(11),
      realPickupTime: "2026-11-20T12:00:00.123456789+01:00",
    });
    await read({ reference: "MOVED", status: "created", updatedAt: at(3), branch: { reference: "centre" } });
    await read({
      reference: "MOVED",
      status: "cancelled",
      updatedAt: at(30),
      branch: { reference: "centre" },
    });
    await read({ reference: "LATER", updatedAt: at(24) });
    await read({ reference: "EARLIER", updatedAt: at(-1) });
    const certificate = await certify();
    const run = makeTask(inFolder());
    expect(await runUntil(run, ({ serial }) => serial !== null)).toMatchObject({
      serial: certificate.serial,
      orders: 2,
      failure: null,
    });
    expect(await readdir(path.dirname(file()))).toEqual([path.basename(name)]);

    const rows = await queryDuckdb(
      `select reference, status, branch_name, branch_reference, revision, epoch_us(real_pickup_time)::bigint as picked from '${file()}' order by 1`,
    );
    const branch = { branch_name: "Centre", branch_reference: "centre" };
    expect(rows).toEqual([
      { reference: "MOVED", status: "created", ...branch, revision: null, picked: null },
      { reference: "SAME", status: "created", ...branch, revision: 1, picked: 1_795_172_400_123_456n },
    ]);

    // An order that has not changed since has the row of an export.
    const exported = path.join(folder, "export.parquet");
    const out = createWriteStream(exported);
    const signal = AbortSignal.timeout(20_000);
    await exportOrders({ pool, format: "parquet", excel: false, filter: { sourceId: "live" }, out, signal });
    await finished(out.end());
    const both = `select * from '${file()}' where reference = 'SAME' intersect select * from '${exported}'`;
    expect(await queryDuckdb(`select count(*)::int as same from (${both})`)).toEqual([{ same: 1 }]);

    const metadata = await queryDuckdb(
      `select decode(key) as key, decode(value) as value from parquet_kv_metadata('${file()}')`,
    );
    expect(Object.fromEntries(metadata.map(({ key, value }) => [key, value]))).toMatchObject({
      "order_mirror.certificate": certificate.envelope,
      "order_mirror.source": "live",
      "order_mirror.since": at(0),
      "order_mirror.until": at(24),
      "order_mirror.orders": "2",
      "order_mirror.serial": String(certificate.serial),
      "order_mirror.digest": certificate.digest,
      "order_mirror.exceptions": "0",
    });
    const [checked] = checkChain([(await readCertificateOf(file())) ?? ""], keys[0]).certificates;
    const { states } = await readStates(file());
    expect(compareStates(states, checked!)).toMatchObject({ orders: 2, equal: true, outside: 0 });

    const check = (...args: string[]) =>
      runCommand(["certificate", "check", file(), "--key", keys[0].publicKey, ...args], {
        databaseUrl: "postgres://127.0.0.1:9/none",
      });
    const right = await check();
    expect(right).toMatchObject({ code: 0, stdout: "" });
    expect(right.stderr).toContain("The orders of the period are exactly the certified ones.");
    expect(await check("--orders", exported, "--states", file())).toMatchObject({
      code: 3,
      stdout: expect.stringMatching(/^MOVED: another state, with updatedAt /m) as string,
    });

    // It is not written again.
    const { written } = (await noted())!;
    await run();
    await makeTask(inFolder())();
    expect(await noted()).toMatchObject({ written });
    const { rows: shown } = await pool.query(
      "select day::text, name, order_count, is_valid from reporting.daily_files",
    );
    expect(shown).toEqual([{ day: at(0).slice(0, 10), name, order_count: 2, is_valid: true }]);
  });

  it("is replaced when the day is certified again after a breach, and shown as invalid until then", async () => {
    await read({ reference: "A", updatedAt: at(1) });
    const first = await certify();
    const run = makeTask(inFolder());
    await runUntil(run, ({ serial }) => serial === first.serial);
    await pool.query("select mirror.withdraw_proof('live', $1, 'missed_change', 'B', 'poll', '')", [
      since + HOUR,
    ]);
    await read({ reference: "B", updatedAt: at(1) });
    await run();
    const valid = async () =>
      (await pool.query<{ is_valid: boolean }>("select is_valid from reporting.daily_files")).rows[0]
        ?.is_valid;
    expect(await valid()).toBe(false);
    const second = await certify();
    await runUntil(run, ({ serial }) => serial === second.serial);
    expect(await valid()).toBe(true);
    expect(await readCertificateOf(file())).toBe(second.envelope);
    expect(await queryDuckdb(`select reference from '${file()}' order by 1`)).toEqual([
      { reference: "A" },
      { reference: "B" },
    ]);
    expect(await readdir(path.dirname(file()))).toEqual([path.basename(name)]);
  });

  it("is tried again, and people are notified, while it cannot be written", async () => {
    await read({ reference: "A", updatedAt: at(1) });
    await certify();
    // A file where the source's folder should be.
    await writeFile(path.join(folder, "live"), "");
    const run = makeTask(inFolder());
    const { failure } = await runUntil(run, (found) => found.failure !== null);
    expect(failure).toMatch(/cannot be written \((ENOTDIR|EEXIST)\)/);
    const [standing] = await readStandings(pool);
    expect(standing).toMatchObject({ fileFailure: failure });
    const condition = CONDITIONS.find(({ name: each }) => each === "OrderMirrorDailyFiles")!;
    const facts = { sources: [{ ...standing!, configured: true }] } as unknown as Parameters<
      typeof condition.find
    >[0];
    expect(condition.find(facts)).toMatchObject([{ subject: "live", since: standing!.filesFailSince }]);
    await rm(path.join(folder, "live"));
    // Not before a minute has passed.
    await run();
    expect(await noted()).toMatchObject({ failure });
    await pool.query("update mirror.daily_files set failed_at = failed_at - interval '1 minute'");
    await runUntil(run, ({ serial }) => serial !== null);
    expect(await noted()).toMatchObject({ failure: null });
    expect(
      condition.find({
        ...facts,
        sources: (await readStandings(pool)).map((each) => ({ ...each, configured: true })),
      }),
    ).toEqual([]);
  });

  it.runIf(disk !== undefined)("says that its disk is full, and is written once there is room", async () => {
    await read({ reference: "A", updatedAt: at(1) });
    const { serial } = await certify();
    const files = { place: disk!.folder, bucket: null };
    await mkdir(path.join(files.place, "live"));
    await disk!.fill();
    const { failure } = await runUntil(makeTask(files), (found) => found.failure !== null);
    const target = path.join(files.place, name);
    expect(failure).toBe(`${target} cannot be written: the disk of ${path.dirname(target)} is full.`);
    expect(JSON.parse(logged.at(-1)!)).toMatchObject({
      fix: "Free space there. The poller tries again every minute.",
    });
    expect(await readdir(path.dirname(target))).toEqual([]);
    disk!.empty();
    await pool.query("update mirror.daily_files set failed_at = failed_at - interval '1 minute'");
    await runUntil(makeTask(files), (found) => found.serial === serial);
    expect(await readdir(path.dirname(target))).toEqual([path.basename(name)]);
  });

  it("never appears in part: a draft that broke off is removed, and so is one that a killed process left", async () => {
    const store = makeFileStore(inFolder());
    const part = path.join(folder, "live", `.${path.basename(name)}.1.1.part`);
    const old = path.join(folder, "live", `.${path.basename(name)}.2.2.part`);
    await mkdir(path.dirname(part));
    await writeFile(part, "another process writes");
    await writeFile(old, "left behind");
    await utimes(old, new Date(0), new Date(0));
    const broken = store.put(
      name,
      async (draft) => {
        await writeFile(draft, "half");
        throw new Error("broke off");
      },
      AbortSignal.timeout(10_000),
    );
    await expect(broken).rejects.toThrow("broke off");
    expect(await readdir(path.dirname(part))).toEqual([path.basename(part)]);
    await store.put(
      name,
      async (draft) => {
        await copyFile(part, draft);
        return { sha256: "" };
      },
      AbortSignal.timeout(10_000),
    );
    expect(await readFile(file(), "utf8")).toBe("another process writes");
    expect((await stat(file())).isFile()).toBe(true);
  });
});

describe("the daily file in an S3-compatible store", () => {
  it("is one signed PUT with its hash; a refusal and a broken connection leave nothing, and no secret in the log", async () => {
    const store = await startObjectStore(KEY);
    onTestFinished(() => store.close());
    await read({ reference: "A", updatedAt: at(1) });
    const certificate = await certify();
    const place = `${store.url}/bucket/some prefix`;
    const files = (secretAccessKey: string): DailyFiles => ({ place, bucket: { ...KEY, secretAccessKey } });
    const again = () =>
      pool.query("update mirror.daily_files set failed_at = failed_at - interval '1 minute'");

    const refused = await runUntil(makeTask(files("another secret")), ({ failure }) => failure !== null);
    expect(refused.failure).toContain("the store answers 403 SignatureDoesNotMatch");
    store.breakOff();
    await again();
    const run = makeTask(files(KEY.secretAccessKey));
    await runUntil(run, ({ failure }) => failure?.includes("no answer") === true);
    expect([...store.objects]).toEqual([]);
    await again();
    await runUntil(run, ({ serial }) => serial === certificate.serial);

    expect([...store.objects.keys()]).toEqual([`/bucket/some%20prefix/${name}`]);
    expect(store.puts()).toBe(1);
    await writeFile(path.join(folder, "got.parquet"), [...store.objects.values()][0]!);
    expect(await readCertificateOf(path.join(folder, "got.parquet"))).toBe(certificate.envelope);
    expect(await queryDuckdb(`select reference from '${path.join(folder, "got.parquet")}'`)).toEqual([
      { reference: "A" },
    ]);
    for (const secret of [KEY.secretAccessKey, "another secret", "secret text", KEY.accessKeyId])
      expect(logged.join("")).not.toContain(secret);
  });

  it("says that the disk of the draft is full", async () => {
    const store = makeFileStore({ place: "https://store.invalid/bucket", bucket: KEY });
    const noRoom = () =>
      Promise.reject(Object.assign(new Error("write"), { code: "ENOSPC", syscall: "write" }));
    await expect(store.put(name, noRoom, AbortSignal.timeout(10_000))).rejects.toMatchObject({
      message: `https://store.invalid/bucket/${name} cannot be written: the disk of ${tmpdir()} is full.`,
      fix: "Free space there. The poller tries again every minute.",
    });
  });
});
