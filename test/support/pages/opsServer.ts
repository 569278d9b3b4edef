import { afterAll } from "vitest";
import { makeOpsRouter, type OpsDeps } from "../../../src/ops/opsRouter.ts";
import { makeHealthReader } from "../../../src/health/health.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { logIn, serve } from "../http/serve.ts";
import { openTestDatabase } from "../servers/database.ts";
import { makeApplyQueue } from "../../../src/queue/applyQueue.ts";

/** Whoever asks from this machine is the operator. */
export const OPEN = {
  opsPassword: null,
  opsViewerPassword: null,
  localTrust: true,
  signOn: null,
  dataDir: ".data",
};
export const PASSWORDS = { operator: "operate", viewer: "look" };
type Role = keyof typeof PASSWORDS;

/** The ops pages over a migrated database for this test file, closed after the file's tests, as either role sees them. */
export async function openOpsPages({ max = 2, ...options }: Partial<OpsDeps> & { max?: number } = {}) {
  const { database, pool } = await openTestDatabase({ purpose: "ops", max, statementTimeoutMs: 5_000 });
  const place = { mirrorId: "pages", databaseUrl: database.url, redisUrls: [] };
  const queue = await makeApplyQueue({ ...place, logger: silentLogger });
  let heldBackMs = 0;
  const clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + heldBackMs };
  const deps = {
    pool,
    queue: queue.bull,
    config: { ...OPEN, opsPassword: PASSWORDS.operator, opsViewerPassword: PASSWORDS.viewer },
    logger: silentLogger,
    clock,
    listRate: { requestsMax: 20, windowMs: 10_000 },
    notify: () => undefined,
    health: makeHealthReader({ pool, clock, sources: [] }),
    ...options,
  };
  const server = await serve(makeOpsRouter(deps));
  const { url } = server;
  afterAll(async () => {
    await server.close();
    await queue.close();
  });
  // With another configuration a test comes in by its own way.
  const isOurs = options.config === undefined;
  const sessions = isOurs && {
    operator: await logIn(url, PASSWORDS.operator),
    viewer: await logIn(url, PASSWORDS.viewer),
  };
  await database.pool.query("delete from mirror.ops_actions");
  const as = (role: Role): Record<string, string> => (sessions ? sessions[role] : {});

  /** Makes held readings outdated at once. */
  const renew = () => void (heldBackMs += 60_000);

  /** A page, and its text as a person reads it; `to` is where it leads instead. */
  async function read(path: string, role: Role = "operator") {
    const answer = await fetch(url + path, { headers: as(role), redirect: "manual" });
    const page = await answer.text();
    const text = page
      .replaceAll(/<[^>]+>/g, " ")
      .replaceAll(/\s+/g, " ")
      .replaceAll("&quot;", '"');
    return { status: answer.status, headers: answer.headers, to: answer.headers.get("location"), page, text };
  }
  /** Sends a form from a page, as a browser names it; `to` is where the answer leads. */
  async function post(
    path: string,
    fields: Record<string, string> = {},
    { role = "operator" as Role, from = "" } = {},
  ) {
    const headers = { ...as(role), ...(from !== "" && { Referer: url + from }) };
    const body = new URLSearchParams(fields);
    const answer = await fetch(url + path, { method: "POST", body, headers, redirect: "manual" });
    return { status: answer.status, to: answer.headers.get("location") };
  }
  return { database, pool, queue, deps, url, as, read, post, renew };
}
