import { judgeWebhooks } from "../../domain/order/lostEvents.ts";
import type { WebhookRecord } from "../../domain/order/lostEvents.ts";
import { millisFromInstant } from "../../domain/order/instant.ts";
import { readWebhookRecord } from "../../poll/ledger/lostEvents.sql.ts";
import { readSourceFigures } from "../../health/readMetrics.sql.ts";
import type { Config } from "../../runtime/config/config.ts";
import { recallCredentials } from "../../runtime/config/credentials.ts";
import { isOnThisMachine } from "../../runtime/config/providerAddress.ts";
import { formatSpan } from "../output/terminal.ts";
import { ok, pairSources, problem, warning } from "./check.ts";
import type { Check, Patient, Remark } from "./check.ts";

const CALL_TIMEOUT_MS = 5_000;
/** What the receiver answers to a call that is not signed. */
const REFUSAL = '{"error":"unauthorized"}';
const ANSWER_LENGTH_MAX = 1_000;
const METRICS_BYTES_MAX = 1_000_000;

/** Each webhook address, by an unsigned call, which must be refused with 401. Nothing of it is stored. */
export const endpointCheck: Check = {
  name: "webhook endpoint",
  needs: "schema",
  async run(patient, signal) {
    const paired = pairSources(patient, await readSourceFigures(patient.pool));
    const named = paired.filter(({ source }) => source === undefined || source.webhookSecrets.length > 0);
    if (named.length === 0) return [ok("No source has webhook secrets; all are polled only.")];
    const remarks = await Promise.all(
      named.map(({ figures }) => callUnsigned(patient, figures.sourceId, signal)),
    );
    return remarks.flat();
  },
};

async function callUnsigned(patient: Patient, sourceId: string, signal: AbortSignal): Promise<Remark[]> {
  const { config } = patient;
  const base = patient.publicUrl ?? localUrl(config, config.webhookPort ?? config.port);
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
    isOurs = (await answer.text()).slice(0, ANSWER_LENGTH_MAX) === REFUSAL;
  } catch (error) {
    return [explainUnreachable(url, error, patient)];
  }
  return [...judgeStatus(url, { status, isOurs }), ...judgeProtocol(base)];
}

function explainUnreachable(url: string, error: unknown, { publicUrl }: Patient): Remark {
  const cause = (error as { cause?: { code?: unknown } }).cause?.code;
  const reason = typeof cause === "string" ? cause : error instanceof Error ? error.name : "no reason given";
  if (publicUrl === null) {
    return warning(
      `Nothing answers on ${url} (${reason}).`,
      "Start `order-mirror web`; if it runs elsewhere, say where with --url https://your-host.",
    );
  }
  return problem(
    `The webhook address ${url} cannot be reached (${reason}).`,
    "Check DNS, the firewall, the proxy and its certificate, and that `order-mirror web` runs behind it.",
  );
}

function judgeStatus(url: string, { status, isOurs }: { status: number; isOurs: boolean }): Remark[] {
  if (status === 401 && isOurs) return [ok(`${url} answers, and refuses an unsigned call.`)];
  if (status === 401) {
    return [
      problem(
        `${url} answers 401, but it is not order-mirror that does: something before it asks for a login.`,
        "Let the proxy pass /webhooks/ on without a login of its own; events are authenticated by their signature.",
      ),
    ];
  }
  if (status === 404) {
    return [
      problem(
        `${url} answers 404: no such source has webhook secrets there, or a proxy cuts the path.`,
        "Set the source's webhook secrets where the web process runs, restart it, and pass the whole path on.",
      ),
    ];
  }
  if (status >= 200 && status < 300) {
    return [
      problem(
        `${url} accepts an unsigned call, so something else than order-mirror answers there.`,
        "Correct the proxy or the address; events sent there are lost.",
      ),
    ];
  }
  if (status >= 300 && status < 400) {
    return [
      problem(
        `${url} redirects, which senders of webhooks do not follow.`,
        "Enter the address that it redirects to at the provider.",
      ),
    ];
  }
  return [
    problem(
      `${url} answers ${status} instead of 401.`,
      "Look into the log of the web process, or of the proxy before it; `/readyz?verbose` tells what it lacks.",
    ),
  ];
}

function judgeProtocol(base: string): Remark[] {
  if (base.startsWith("https:") || isOnThisMachine(base)) return [];
  return [warning(`${base} is not https, so events travel in the clear.`, "Enter an https:// address.")];
}

/** Whether events come, by what reads found that they should have told. */
export const eventsCheck: Check = {
  name: "events",
  needs: "schema",
  async run(patient, signal) {
    const paired = pairSources(patient, await readSourceFigures(patient.pool));
    const judged = await Promise.all(
      paired.map(async ({ figures: { sourceId, lastEventAt }, source }) => {
        const configured = source === undefined ? lastEventAt !== null : source.webhookSecrets.length > 0;
        return describeHealth(sourceId, await readWebhookRecord(patient.pool, { sourceId, configured }));
      }),
    );
    return [...judged, ...(await examineRefusals(patient, signal))];
  },
};

function describeHealth(sourceId: string, record: WebhookRecord): Remark {
  const { lost, lostSinceLastEvent, lastEventAt, now } = record;
  const last = lastEventAt === null ? "" : formatSpan(Math.max(0, millisFromInstant(now - lastEventAt)));
  const health = judgeWebhooks(record);
  switch (health) {
    case "not-configured":
      return ok(`${sourceId}: polled only.`);
    case "working":
      return ok(`${sourceId}: the last event came ${last} ago, and none was lost in 24 h.`);
    case "never-seen":
      return warning(
        `${sourceId}: no event has come lately, though webhook secrets are set.`,
        `Enter https://your-host/webhooks/${sourceId} at the provider (Developers, Webhooks; Advanced plan).`,
      );
    case "losing":
      return warning(
        `${sourceId}: ${lost} events were lost in 24 h; polling repaired their orders.`,
        "Compare with the provider's delivery log; `order-mirror tail` shows repairs as they happen.",
      );
    case "stopped":
      return problem(
        `${sourceId}: events have stopped; the last came ${last} ago, and ${lostSinceLastEvent} changes since were found by polling only.`,
        `Check the endpoint at the provider, its secret, and the plan; then \`order-mirror doctor --url https://your-host\`.`,
      );
    default: {
      const never: never = health;
      return never;
    }
  }
}

/** Wrongly signed calls, as the web process on this machine has counted them. */
async function examineRefusals(patient: Patient, signal: AbortSignal): Promise<Remark[]> {
  const text = await readMetricsText(patient, signal);
  if (text === undefined) return [];
  const refused = readSample(text, "order_mirror_webhook_refusals_total", "signature_mismatch");
  const accepted =
    readSample(text, "order_mirror_webhooks_received_total", "received") +
    readSample(text, "order_mirror_webhooks_received_total", "duplicate");
  if (refused === 0) return [];
  const fix =
    "Copy the endpoint's secret from the provider (Developers, Webhooks) once more; if it is right, `order-mirror identify-signature` finds the scheme from a captured request.";
  return accepted === 0
    ? [
        problem(
          `All ${refused} signed webhook calls since the start of the web process were refused: the secret or WEBHOOK_SCHEME is wrong.`,
          fix,
        ),
      ]
    : [
        warning(
          `${refused} webhook calls had a wrong signature, ${accepted} a right one: one endpoint's secret may be wrong, or somebody is trying.`,
          fix,
        ),
      ];
}

async function readMetricsText(patient: Patient, signal: AbortSignal): Promise<string | undefined> {
  try {
    const { metricsToken } = recallCredentials(patient.config);
    const answer = await fetch(`${localUrl(patient.config, patient.config.port)}/metrics`, {
      headers: metricsToken === null ? {} : { authorization: `Bearer ${metricsToken}` },
      signal: AbortSignal.any([signal, AbortSignal.timeout(CALL_TIMEOUT_MS)]),
    });
    if (!answer.ok) return undefined;
    return (await answer.text()).slice(0, METRICS_BYTES_MAX);
  } catch {
    // No web process on this machine: then nobody here has counted.
    return undefined;
  }
}

/** The sample of a counter whose labels hold `word`; 0 when there is none. */
function readSample(text: string, name: string, word: string): number {
  const line = text.split("\n").find((each) => each.startsWith(`${name}{`) && each.includes(`"${word}"`));
  return Number(line?.split(" ")[1] ?? 0);
}

function localUrl({ host: listensOn }: Config, port: number): string {
  const host = listensOn === "0.0.0.0" || listensOn === "::" ? "127.0.0.1" : listensOn;
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
}
