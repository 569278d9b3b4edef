import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { makeRefusedRequests, type RefusedRequest } from "../../../src/receive/refusedRequests.ts";
import { makeLogger } from "../../../src/process/telemetry/logger.ts";
import { makeSimulatedClock } from "../../support/virtual/simulatedClock.ts";

const DAY_MS = 86_400_000;
const SIGNED = { host: ["mirror.example"], "x-signature": ["ab".repeat(32)] };

async function setUp(limit = 3) {
  const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-refused-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const clock = makeSimulatedClock();
  const logger = makeLogger({ level: "debug", format: "json", service: "test" });
  const refused = makeRefusedRequests({ folder, limit, clock, logger });
  const list = async () => (await readdir(folder)).filter((name) => name.endsWith(".json")).sort();
  const read = async (name: string) =>
    JSON.parse(await readFile(path.join(folder, name), "utf8")) as {
      source: string;
      headers: object;
      bodyBase64: string;
    };
  const bodies = async () =>
    Promise.all(
      (await list()).map(async (name) => Buffer.from((await read(name)).bodyBase64, "base64").toString()),
    );
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
  return { folder, clock, refused, keep, keepOne, list, read, bodies };
}

it("keeps the latest ones, in files that only their account may read", async () => {
  const { folder, clock, keepOne, list, bodies } = await setUp();
  for (let n = 1; n <= 5; n += 1) {
    await clock.runUntil(n * 1_000);
    await keepOne(`body ${n}`);
  }
  await expect.poll(() => readdir(folder)).toHaveLength(3);
  expect(await bodies()).toEqual(["body 3", "body 4", "body 5"]);
  for (const name of await list()) expect((await stat(path.join(folder, name))).mode & 0o777).toBe(0o600);
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

it("omits headers with the sender's address and credentials", async () => {
  const { keepOne, list, read } = await setUp();
  const names = [
    "cookie",
    "proxy-authorization",
    "forwarded",
    "x-forwarded-for",
    "x-real-ip",
    "true-client-ip",
  ];
  await keepOne("body", {
    headers: { ...SIGNED, ...Object.fromEntries(names.map((name) => [name, ["private"]])) },
  });
  const [name = ""] = await list();
  expect((await read(name)).headers).toEqual(SIGNED);
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
