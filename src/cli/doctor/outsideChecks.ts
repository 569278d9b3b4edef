import { ConfigurationError, UnavailableError } from "../../domain/errors.ts";
import type { Pool } from "../../database/database.ts";
import { readNewestReference } from "./serverFacts.sql.ts";
import { makeBudget } from "../../provider/budget.ts";
import { makeProviderClient, type ProviderClient } from "../../provider/client.ts";
import { ProviderError } from "../../provider/errors.ts";
import { failureOf } from "../../domain/source/errors.ts";
import { assertOwnKey } from "../../roles/role.ts";
import type { SourceConfig } from "../../runtime/config/config.ts";
import { KEY_VARIABLES, isOnThisMachine } from "../../runtime/config/sources.ts";
import { ok, problem, warning, type Check, type Patient, type Remark } from "./check.ts";
import { readBytes } from "../../provider/exchange.ts";
import { localUrl } from "../../runtime/http/httpServer.ts";

const SKEW_NOTED_SECONDS = 5;
const SKEW_HARMFUL_SECONDS = 30;

/**
 * The provider and each source's key, checked with reads that cost no list budget: the branches, and the order that
 * changed last. If the key cannot see one of our orders, it belongs to another organization or mode; the provider
 * answers both alike (spec, "Authentication", 4).
 */
export const providerCheck: Check = {
  name: "provider",
  async run(patient, signal) {
    const { sources } = patient.config;
    if (sources.length === 0) {
      return [
        warning(
          "No source is configured here, so there is no key to try.",
          "Set DELIVERY_BASE_URL and DELIVERY_LIVE_API_KEY or DELIVERY_TEST_API_KEY. Beside a running demo this is as it should be.",
        ),
      ];
    }
    const remarks = await Promise.all(sources.map((source) => examineSource(patient, source, signal)));
    return remarks.flat();
  },
};

async function examineSource(
  { pool, clock, logger }: Patient,
  source: SourceConfig,
  signal: AbortSignal,
): Promise<Remark[]> {
  const { sourceId, baseUrl, apiKey } = source;
  if (apiKey === null) return [ok(`${sourceId}: no key is set here; only the poller needs one.`)];
  const client = makeProviderClient({ baseUrl, apiKey, budget: makeBudget({ clock }), clock, logger });
  try {
    await assertOwnKey(pool, source, logger);
    const { data } = await client.listBranches({}, { signal });
    await readNewestOrder(pool, { client, sourceId, signal });
    return judgeSkew(client) ?? [ok(`${sourceId}: the key works and sees ${data.length} branches.`)];
  } catch (error) {
    return [explain(error, source), ...(judgeSkew(client) ?? [])];
  }
}

const NOT_FOUND_CODE = "order_not_found";

/** Throws only what is wrong with the key or the address: one order may be unreadable for reasons of its own. */
async function readNewestOrder(
  pool: Pool,
  { client, sourceId, signal }: { client: ProviderClient; sourceId: string; signal: AbortSignal },
): Promise<void> {
  const reference = await readNewestReference(pool, sourceId);
  if (reference === undefined) return;
  try {
    await client.getOrder(reference, { signal });
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    if (error.failure === "key_refused" || error.code === NOT_FOUND_CODE) throw error;
  }
}

function explain(error: unknown, { sourceId, mode, baseUrl }: SourceConfig): Remark {
  if (error instanceof ConfigurationError) return problem(error.message, error.fix ?? "Check the key.");
  if (failureOf(error) === "key_refused") {
    return problem(
      `${sourceId}: the provider does not know the key.`,
      `Copy the ${mode} key again from the provider's dashboard (Developers, API keys) into ${KEY_VARIABLES[mode]}.`,
    );
  }
  if (failureOf(error) === "not_found") {
    return problem(
      `${sourceId}: the key cannot see an order that the mirror holds, so it belongs to another organization or mode.`,
      `Put the ${mode} key of the same organization into ${KEY_VARIABLES[mode]}, or start with an empty database.`,
    );
  }
  if (error instanceof ProviderError) {
    return problem(
      `${sourceId}: ${error.message}`,
      error.fix ?? `Check the provider's status page, and DELIVERY_BASE_URL (${baseUrl}).`,
    );
  }
  if (error instanceof UnavailableError)
    return problem(`${sourceId}: ${error.message}`, error.fix ?? "Wait.");
  throw error;
}

/** Undefined while this machine's clock is right, or the provider's is not known. */
function judgeSkew({ providerClock }: ProviderClient): Remark[] | undefined {
  const skew = providerClock.skewSeconds() ?? 0;
  const seconds = Math.abs(skew);
  if (seconds <= SKEW_NOTED_SECONDS) return undefined;
  const sentence = `This machine's clock is ${Math.round(seconds)} s ${skew > 0 ? "ahead of" : "behind"} the provider's.`;
  const fix =
    "Run a time service (chrony, systemd-timesyncd); otherwise webhooks are refused because their signing times seem too far away.";
  return [seconds >= SKEW_HARMFUL_SECONDS ? problem(sentence, fix) : warning(sentence, fix)];
}

const CALL_TIMEOUT_MS = 5_000;
/** The receiver's answer to an unsigned call. */
const REFUSAL = '{"error":"unauthorized"}';

/** Calls each webhook address without a signature; it must refuse with 401. Nothing of the call is stored. */
export const endpointCheck: Check = {
  name: "webhook endpoint",
  async run(patient, signal) {
    const { facts } = await patient.health();
    // If no source is configured, as in a demo, call those in the database.
    const isBare = patient.config.sources.length === 0;
    const named = facts.sources.filter(({ configured }) => isBare || configured === true);
    if (named.length === 0) return [ok("No source has webhook secrets; all are polled only.")];
    const remarks = await Promise.all(named.map(({ sourceId }) => callUnsigned(patient, sourceId, signal)));
    return remarks.flat();
  },
};

async function callUnsigned(patient: Patient, sourceId: string, signal: AbortSignal): Promise<Remark[]> {
  const { config } = patient;
  const base = patient.publicUrl ?? localUrl(config.host, config.webhookPort ?? config.port);
  const url = `${base}/webhooks/${sourceId}`;
  let status: number;
  let isOurs: boolean;
  try {
    const answer = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: "{}",
      redirect: "manual",
      signal: AbortSignal.any([signal, AbortSignal.timeout(CALL_TIMEOUT_MS)]),
    });
    ({ status } = answer);
    isOurs = (await readBytes(answer.body, REFUSAL.length))?.toString() === REFUSAL;
  } catch (error) {
    return [explainUnreachable(url, error, patient)];
  }
  return [judgeStatus(url, { status, isOurs }), ...judgeProtocol(base)];
}

function explainUnreachable(url: string, error: unknown, { publicUrl }: Patient): Remark {
  const cause = (error as { cause?: { code?: unknown } }).cause?.code;
  const reason = typeof cause === "string" ? cause : error instanceof Error ? error.name : "no reason given";
  if (publicUrl === null) {
    return warning(
      `Nothing answers on ${url} (${reason}).`,
      "Start `order-mirror web`; if it runs elsewhere, give its address: --url https://your-host.",
    );
  }
  return problem(
    `The webhook address ${url} cannot be reached (${reason}).`,
    "Check DNS, the firewall, the proxy and its certificate, and that `order-mirror web` runs behind it.",
  );
}

/** What answers of something else say, by the beginning of their status. */
const WRONG_ANSWERS: readonly (readonly [status: RegExp, sentence: string, fix: string])[] = [
  [
    /^401/,
    "answers 401, but the answer is not order-mirror's: something in front of it asks for a login.",
    "Let the proxy forward /webhooks/ without its own login; signatures authenticate the events.",
  ],
  [
    /^404/,
    "answers 404: no source of that name has webhook secrets there, or a proxy changes the path.",
    "Set the source's webhook secrets where the web process runs, restart it, and pass the whole path on.",
  ],
  [
    /^2/,
    "accepts an unsigned call, so the server there is not order-mirror.",
    "Correct the proxy or the address; events sent there are lost.",
  ],
  [
    /^3/,
    "redirects; webhook senders do not follow redirects.",
    "Enter the redirect's target as the webhook address at the provider.",
  ],
];

function judgeStatus(url: string, { status, isOurs }: { status: number; isOurs: boolean }): Remark {
  if (status === 401 && isOurs) return ok(`${url} answers, and refuses an unsigned call.`);
  const known = WRONG_ANSWERS.find(([pattern]) => pattern.test(String(status)));
  if (known !== undefined) return problem(`${url} ${known[1]}`, known[2]);
  return problem(
    `${url} answers ${status} instead of 401.`,
    "Check the log of the web process, or of the proxy in front of it; `/readyz?verbose` shows what it lacks.",
  );
}

function judgeProtocol(base: string): Remark[] {
  if (base.startsWith("https:") || isOnThisMachine(base)) return [];
  return [warning(`${base} is not https, so events travel unencrypted.`, "Enter an https:// address.")];
}
