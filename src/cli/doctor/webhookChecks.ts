import { readBytes } from "../../runtime/http/readBytes.ts";
import { localUrl } from "../../runtime/http/httpServer.ts";
import { isOnThisMachine } from "../../runtime/config/providerAddress.ts";
import { ok, problem, warning } from "./check.ts";
import type { Check, Patient, Remark } from "./check.ts";

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

function judgeStatus(url: string, { status, isOurs }: { status: number; isOurs: boolean }): Remark {
  if (status === 401 && isOurs) return ok(`${url} answers, and refuses an unsigned call.`);
  if (status === 401) {
    return problem(
      `${url} answers 401, but the answer is not order-mirror's: something in front of it asks for a login.`,
      "Let the proxy forward /webhooks/ without its own login; signatures authenticate the events.",
    );
  }
  if (status === 404) {
    return problem(
      `${url} answers 404: no source of that name has webhook secrets there, or a proxy changes the path.`,
      "Set the source's webhook secrets where the web process runs, restart it, and pass the whole path on.",
    );
  }
  if (status >= 200 && status < 300) {
    return problem(
      `${url} accepts an unsigned call, so the server there is not order-mirror.`,
      "Correct the proxy or the address; events sent there are lost.",
    );
  }
  if (status >= 300 && status < 400) {
    return problem(
      `${url} redirects; webhook senders do not follow redirects.`,
      "Enter the redirect's target as the webhook address at the provider.",
    );
  }
  return problem(
    `${url} answers ${status} instead of 401.`,
    "Check the log of the web process, or of the proxy in front of it; `/readyz?verbose` shows what it lacks.",
  );
}

function judgeProtocol(base: string): Remark[] {
  if (base.startsWith("https:") || isOnThisMachine(base)) return [];
  return [warning(`${base} is not https, so events travel unencrypted.`, "Enter an https:// address.")];
}
