import { ConfigurationError, OrderMirrorError } from "../../domain/errors.ts";
import { formatInstant, NANOS_PER_SECOND } from "../../domain/order/instant.ts";
import { failureOf } from "../../domain/source/errors.ts";
import type { Pool } from "../../database/database.ts";
import { listLostSettings, readLogin } from "../../database/logins.ts";
import { examineSchema } from "../../database/migrations.ts";
import { describeWebhooks } from "../../health/conditions/webhookCalls.sql.ts";
import { isUpToDate } from "../../health/freshness.ts";
import type { Health } from "../../health/health.ts";
import type { Standing } from "../../health/conditions/standing.ts";
import { makeBudget } from "../../provider/budget.ts";
import { makeProviderClient } from "../../provider/client.ts";
import { readBytes } from "../../provider/exchange.ts";
import type { OpenDatabase } from "../../mirror/openDatabase.ts";
import { assertOwnKey } from "../../sources/configuredSources.ts";
import type { Config, SourceConfig } from "../../config/config.ts";
import { keyVariable, isOnThisMachine } from "../../config/sources.ts";
import { localUrl } from "../../process/httpServer.ts";
import { withTimeout } from "../../process/abort.ts";
import { systemClock } from "../../process/clock.ts";
import { silentLogger } from "../../process/telemetry/logger.ts";
import { EXAMINER } from "../../receive/receiver.ts";
import { countOf, explainFailure } from "../output/terminal.ts";
import { isReaderReady, readServer } from "./serverFacts.sql.ts";

export type Level = "ok" | "warning" | "problem";

/** The result of a check: one sentence, and a fix unless all is well. Neither contains a secret. */
export interface CheckFinding {
  readonly check: string;
  readonly level: Level;
  readonly sentence: string;
  readonly fix?: string;
  /** The name of the condition, if the finding reports one. */
  readonly condition?: string;
}

/** A finding of a check, under its name unless another is given. */
type Remark = Omit<CheckFinding, "check"> & Partial<Pick<CheckFinding, "check">>;

/** The parts that the checks examine. */
export interface Patient {
  readonly config: Config;
  readonly database: OpenDatabase;
  readonly pool: Pool;
  /** The web process's public address as the provider knows it; null: use HOST and PORT of this machine. */
  readonly publicUrl: string | null;
  /** The state of every source and the conditions that hold, read once for all checks. */
  readonly health: () => Promise<Health>;
}

/** A check never changes anything visible. */
export type Check = (patient: Patient, signal: AbortSignal) => Promise<readonly Remark[]>;

const ok = (sentence: string): Remark => ({ level: "ok", sentence });
const warning = (sentence: string, fix: string): Remark => ({ level: "warning", sentence, fix });
const problem = (sentence: string, fix: string): Remark => ({ level: "problem", sentence, fix });

/** The remark for a check that failed with an error. */
export function toRemark(thrown: unknown): Remark {
  const error = explainFailure(thrown);
  const again = "Try again; LOG_LEVEL=debug shows more.";
  if (error instanceof OrderMirrorError) return problem(error.message, error.fix ?? again);
  const code = (error as { code?: unknown } | undefined)?.code;
  const reason = typeof code === "string" ? code : error instanceof Error ? error.message : String(error);
  return problem(`The check failed: ${reason}.`, again);
}

/** A check's deadline, longer than any healthy server needs: no check can delay the others longer than this. */
const CHECK_DEADLINE_MS = 10_000;

/** Runs checks concurrently, each with its deadline. The findings keep the order of `checks`. */
export async function examine(
  patient: Patient,
  checks: Readonly<Record<string, Check>>,
  deadlineMs = CHECK_DEADLINE_MS,
): Promise<CheckFinding[]> {
  const late = problem(
    `No answer within ${deadlineMs / 1_000} s.`,
    "Check whether the server hangs or a firewall drops the connection.",
  );
  const findings = Object.entries(checks).map(async ([name, check]) => {
    const signal = AbortSignal.timeout(deadlineMs);
    const remarks = await withTimeout(check(patient, signal), deadlineMs).catch((error: unknown) =>
      signal.aborted ? "late" : [toRemark(error)],
    );
    return (remarks === "late" ? [late] : remarks).map((remark) => ({ check: name, ...remark }));
  });
  return (await Promise.all(findings)).flat();
}

/** The server and its schema; without them, no other check can run. */
export const SERVER_CHECKS = { postgres: checkPostgres, migrations: checkMigrations };

/** Checks that need a current schema. */
export const CONTENT_CHECKS = {
  login: checkLogin,
  "reader role": checkReader,
  queue: checkQueue,
  provider: checkProviders,
  "webhook endpoint": checkEndpoints,
  mirror: checkMirror,
};

async function checkPostgres({ pool, database }: Patient): Promise<Remark[]> {
  const { version, unsafe } = await readServer(pool);
  const place = database.embedded ? "embedded" : "DATABASE_URL";
  if (unsafe.length === 0) return [ok(`PostgreSQL ${version} (${place}); commits are on disk.`)];
  return unsafe.map((setting) =>
    problem(
      `${setting} is off: a power cut can lose acknowledged events.`,
      `psql: alter system set ${setting} = on; then restart Postgres.`,
    ),
  );
}

async function checkMigrations({ database }: Patient): Promise<Remark[]> {
  const { findings } = await examineSchema(database.url);
  if (findings.length === 0) return [ok("The schema is current.")];
  return findings.map(({ kind, sentence, fix }) =>
    kind === "newer" ? warning(sentence, fix) : problem(sentence, fix),
  );
}

/** The login in DATABASE_URL. */
async function checkLogin({ pool }: Patient): Promise<Remark[]> {
  const { login, isOwner, groups } = await readLogin(pool);
  const lost = await listLostSettings(pool);
  if (lost.length > 0) {
    const sentence = `The database lost settings, as in a restore: ${lost.join("; ")}.`;
    return [problem(sentence, "Run `order-mirror migrate --roles` as the owner of the database.")];
  }
  if (isOwner) return [ok(`${login} owns the mirror: right for commands, more than a process needs.`)];
  if (groups.length > 0) return [ok(`${login} has the rights of ${groups.join(", ")}.`)];
  const fix = "psql, as the owner: grant order_mirror_web, order_mirror_worker or order_mirror_poller to it.";
  return [problem(`The login ${login} has the rights of none of the processes.`, fix)];
}

async function checkReader({ pool }: Patient): Promise<Remark[]> {
  if (await isReaderReady(pool))
    return [ok("order_mirror_reader may read the schema reporting, and nothing else.")];
  return [
    problem(
      "The role order_mirror_reader is missing or lacks its rights to the schema reporting.",
      "`order-mirror psql -c 'call mirror.prepare_reader()'`, as a user who may create roles.",
    ),
  ];
}

/** Redis or Valkey, if the queue is there; what is wrong with it is a condition of the mirror. */
async function checkQueue({ config, health }: Patient): Promise<Remark[]> {
  if (config.redisUrls.length === 0) return [];
  const { facts } = await health();
  const isSound = facts.queues?.every(({ problems }) => problems.length === 0) === true;
  return isSound ? [ok("The server in REDIS_URL answers, and keeps what it is given.")] : [];
}

/** The provider and each source's key, checked by a read that costs no list budget: the branches. */
async function checkProviders({ config, pool }: Patient, signal: AbortSignal): Promise<Remark[]> {
  if (config.sources.length === 0) return [ok("No source is configured here, so there is no key to try.")];
  return Promise.all(config.sources.map((source) => checkKey(pool, source, signal)));
}

/** A difference far longer than an answer may be under way: a smaller one need not be the clock's. */
const SKEW_HARMFUL_SECONDS = 30;

async function checkKey(pool: Pool, source: SourceConfig, signal: AbortSignal): Promise<Remark> {
  const { sourceId, mode, baseUrl, apiKey } = source;
  if (apiKey === null) return ok(`${sourceId}: no key is set here; only the poller needs one.`);
  const clock = systemClock;
  const parts = { budget: makeBudget({ clock }), clock, logger: silentLogger };
  const client = makeProviderClient({ baseUrl, apiKey, ...parts });
  try {
    await assertOwnKey(pool, source, silentLogger);
    const { data } = await client.listBranches({}, { signal });
    const { providerClock } = client;
    const skew = Number(clock.now() - providerClock.providerNow()) / Number(NANOS_PER_SECOND);
    if (!providerClock.isSynchronized() || Math.abs(skew) < SKEW_HARMFUL_SECONDS)
      return ok(`${sourceId}: the key works and sees ${countOf(data.length, "branch", "branches")}.`);
    return problem(
      `This machine's clock is ${Math.round(Math.abs(skew))} s ${skew > 0 ? "ahead of" : "behind"} the provider's.`,
      "Run a time service (chrony, systemd-timesyncd); otherwise webhooks are refused because their signing times seem too far away.",
    );
  } catch (error) {
    if (error instanceof ConfigurationError) return toRemark(error);
    if (failureOf(error) === "key_refused") {
      return problem(
        `${sourceId}: the provider does not know the key.`,
        `Copy the ${mode} key again from the provider's dashboard (Developers, API keys) into ${keyVariable(mode)}.`,
      );
    }
    const { sentence } = toRemark(error);
    const fix = `Check the provider's status page, and DELIVERY_BASE_URL (${baseUrl}).`;
    return problem(`${sourceId}: ${sentence}`, fix);
  }
}

const CALL_TIMEOUT_MS = 5_000;
/** The receiver's answer to an unsigned call. */
const REFUSAL = '{"error":"unauthorized"}';

/** Calls each webhook address without a signature; it must refuse with 401. Nothing of the call is stored. */
async function checkEndpoints(patient: Patient, signal: AbortSignal): Promise<Remark[]> {
  const { config, publicUrl, health } = patient;
  const { facts } = await health();
  // If no source is configured, as in a demo, call those in the database.
  const isBare = config.sources.length === 0;
  const named = facts.sources.filter(({ configured }) => isBare || configured === true);
  if (named.length === 0) return [ok("No source has webhook secrets; all are polled only.")];
  const base = publicUrl ?? localUrl(config.host, config.webhookPort ?? config.port);
  const calls = named.map(({ sourceId }) => callUnsigned(`${base}/webhooks/${sourceId}`, patient, signal));
  const remarks = await Promise.all(calls);
  if (base.startsWith("https:") || isOnThisMachine(base)) return remarks;
  const unencrypted = `${base} is not https, so events travel unencrypted.`;
  return [...remarks, warning(unencrypted, "Enter an https:// address.")];
}

async function callUnsigned(url: string, { publicUrl }: Patient, signal: AbortSignal): Promise<Remark> {
  try {
    const answer = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", "user-agent": EXAMINER },
      body: "{}",
      redirect: "manual",
      signal: AbortSignal.any([signal, AbortSignal.timeout(CALL_TIMEOUT_MS)]),
    });
    const isOurs = (await readBytes(answer.body, REFUSAL.length))?.toString() === REFUSAL;
    if (answer.status === 401 && isOurs) return ok(`${url} answers, and refuses an unsigned call.`);
    return problem(
      `${url} answers ${answer.status}, which is not order-mirror's refusal of an unsigned call; events sent there are lost or refused.`,
      "Set the source's webhook secrets where `order-mirror web` runs, and let the proxy pass the whole path on to it, without a login or a redirect. `/readyz?verbose` shows what web lacks.",
    );
  } catch (error) {
    const cause = (error as { cause?: { code?: unknown } }).cause?.code;
    const reason =
      typeof cause === "string" ? cause : error instanceof Error ? error.name : "no reason given";
    return publicUrl === null
      ? warning(
          `Nothing answers on ${url} (${reason}).`,
          "Start `order-mirror web`; if it runs elsewhere, give its address: --url https://your-host.",
        )
      : problem(
          `The webhook address ${url} cannot be reached (${reason}).`,
          "Check DNS, the firewall, the proxy and its certificate, and that `order-mirror web` runs behind it.",
        );
  }
}

/** The conditions that hold or begin to, each under the name of its area; and how far each source is complete. */
async function checkMirror({ health }: Patient): Promise<Remark[]> {
  const { facts, holding, beginning } = await health();
  return [
    ...holding.map(({ condition, cause, remedy }): Remark => {
      const level = condition.severity === "critical" ? "problem" : "warning";
      return { check: condition.area, level, sentence: cause, fix: remedy, condition: condition.name };
    }),
    ...beginning.map(({ condition, cause, remedy }) => ({
      ...warning(`Watching: ${cause}`, remedy),
      check: condition.area,
    })),
    ...(facts.sources.length === 0 ? [ok("There is no source yet.")] : []),
    ...facts.sources.flatMap(describeSource),
  ];
}

function describeSource(source: Standing): Remark[] {
  const { sourceId, safeThrough, configured } = source;
  const complete =
    safeThrough === null
      ? "not verified yet; expect the first proof within a quarter of an hour"
      : `complete up to ${formatInstant(safeThrough, 0)}`;
  const silent = warning(
    `${sourceId}: webhook secrets are set, but no event has ever arrived.`,
    `Enter https://your-host/webhooks/${sourceId} at the provider (Developers, Webhooks), if its plan includes them.`,
  );
  // A sandbox on this machine sends an event with the first order that somebody makes.
  const isSilent =
    configured === true && !isOnThisMachine(source.baseUrl) && describeWebhooks(source) === "never-seen";
  // Old data is not well, whatever the reason is: its condition names it.
  const isBehind = safeThrough !== null && !isUpToDate(source);
  const reached = isBehind
    ? warning(
        `${sourceId}: ${complete}, which is longer ago than polling explains.`,
        "`order-mirror status` says why.",
      )
    : ok(`${sourceId}: ${complete}.`);
  return [reached, ...(isSilent ? [{ ...silent, check: "events" }] : [])];
}
