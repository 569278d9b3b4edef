import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, it, onTestFinished } from "vitest";
import {
  makeRefusedRequests,
  readRefusedRequests,
  removeRefusedRequests,
  type RefusedRequest,
} from "../../../src/receive/refusedRequests.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { makeSimulatedClock } from "../../support/virtual/simulatedClock.ts";

const DAY_MS = 86_400_000;
const SIGNED = { host: ["mirror.example"], "x-signature": ["ab".repeat(32)] };

async function setUp(limit = 3) {
  const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-refused-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const clock = makeSimulatedClock();
  const refused = makeRefusedRequests({ folder, limit, clock, logger: silentLogger });
  const read = async () => (await readRefusedRequests(folder)).toReversed();
  const bodies = async () => (await read()).map(({ body }) => body.toString());
  const keep = (body: string, other: Partial<RefusedRequest> = {}) =>
    refused.keep({
      sourceId: "live",
      reason: "signature_mismatch",
      headers: SIGNED,
      target: "/webhooks/live",
      body: Buffer.from(body),
      ...other,
    });
  /** Repeats, because a request is skipped while another one is being written. */
  const keepOne = async (body: string, other?: Partial<RefusedRequest>) => {
    await expect.poll(() => (keep(body, other), bodies()), { interval: 5 }).toContain(body);
  };
  return { folder, clock, refused, keep, keepOne, read, bodies };
}

it("keeps the latest ones of each source, without addresses and logins, in a file for its account alone", async () => {
  const { folder, clock, keepOne, read, bodies } = await setUp();
  const names = "cookie proxy-authorization forwarded x-forwarded-for x-real-ip true-client-ip".split(" ");
  const personal = Object.fromEntries(names.map((name) => [name, ["private"]]));
  await keepOne("of a quiet source", { sourceId: "test" });
  for (let n = 1; n <= 5; n += 1) {
    await clock.runUntil(n * 1_000);
    await keepOne(`body ${n}`, { headers: { ...SIGNED, ...personal } });
  }
  expect(await bodies()).toEqual(["of a quiet source", "body 3", "body 4", "body 5"]);
  for (const { headers } of await read()) expect(headers).toEqual(SIGNED);
  expect((await readdir(folder)).sort()).toEqual(["live.ndjson", "test.ndjson"]);
  for (const name of await readdir(folder))
    expect((await stat(path.join(folder, name))).mode & 0o777).toBe(0o600);
});

it("does not bring back what was removed while it kept another", async () => {
  const { folder, clock, keep, keepOne, bodies } = await setUp(100);
  for (let n = 1; n <= 20; n += 1) {
    await clock.runUntil(n * 2_000);
    await keepOne(`erased ${n}`);
    await clock.runUntil(n * 2_000 + 1_000);
    keep("meanwhile");
    await removeRefusedRequests(folder);
    expect((await bodies()).filter((body) => body !== "meanwhile")).toEqual([]);
  }
});

it("keeps one per source and second, and none that is large or cannot have a signature", async () => {
  const { clock, keep, keepOne, bodies } = await setUp(10);
  keep("x".repeat(65_537));
  keep("a scan", {
    headers: { host: ["a"], "user-agent": ["b"], cookie: ["c"], "sec-fetch-mode": ["cors"] },
  });
  await keepOne("first");
  keep("within the second");
  await keepOne("of another source", { sourceId: "test" });
  keep("within the second");
  await clock.runUntil(1_000);
  await keepOne("in the address", { headers: { host: ["a"] }, target: "/webhooks/live?sig=1" });
  expect((await bodies()).sort()).toEqual(["first", "in the address", "of another source"]);
});

it("removes each after a day", async () => {
  const { clock, refused, keepOne, bodies } = await setUp();
  await keepOne("early");
  await clock.runUntil(60_000);
  await keepOne("late");
  await clock.runUntil(DAY_MS + 1);
  await refused.prune();
  expect(await bodies()).toEqual(["late"]);
  await clock.runUntil(DAY_MS + 60_001);
  await refused.prune();
  expect(await bodies()).toEqual([]);
});
