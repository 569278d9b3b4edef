import { z } from "zod";
import { OUTGOING_FIELDS, OUTGOING_TYPES } from "../../domain/order/outgoing.ts";
import { listName, makeSecretReader, type CheckScheme, type Listed } from "./sources.ts";
import { isUnprotected, list, webAddress } from "./variables.ts";

/** One of the business's own endpoints, which is notified of changes. */
export type OutgoingWebhook = ReturnType<typeof checkOutgoing>[number];

const STATUS_LENGTH_MAX = 255;
const RATE_MAX = 1_000;
/** A seed of 32 bytes, or the seed followed by the public key. */
const SIGNING_KEY = /^whsk_(?:[A-Za-z0-9+/]{43}=?|[A-Za-z0-9+/]{86}(?:==)?)$/;

/** An endpoint as OUTGOING_WEBHOOKS_FILE lists it. */
export const webhookSchema = z.strictObject({
  name: listName,
  url: webAddress,
  secret: z.string().trim().min(1).optional(),
  secretFile: z.string().min(1).optional(),
  sources: z.array(z.string()).min(1),
  events: z.array(z.enum(OUTGOING_TYPES)).min(1).optional(),
  statuses: z.array(z.string().min(1).max(STATUS_LENGTH_MAX)).min(1).optional(),
  // Whoever wants people's names and addresses in another system has to say so.
  fields: z.enum(OUTGOING_FIELDS).default("redacted"),
  ordered: z.boolean().default(false),
  rate: z.int().min(1).max(RATE_MAX).nullable().default(null),
});

interface OutgoingDeps {
  readonly sourceIds: readonly string[];
  readonly checkScheme: CheckScheme;
  readonly problems: string[];
}

/** The listed endpoints without those that have a problem; each problem names the list. */
export function checkOutgoing(
  { list: listed, folder, elements }: Listed<z.output<typeof webhookSchema>>,
  { sourceIds, checkScheme, problems }: OutgoingDeps,
) {
  const names = new Set<string>();
  return elements.flatMap((webhook) => {
    const { fields, ordered, rate } = webhook;
    const place = `${listed}, endpoint ${webhook.name},`;
    const before = problems.length;
    if (names.has(webhook.name)) problems.push(`${place} is listed twice. Use different names.`);
    names.add(webhook.name);
    for (const source of webhook.sources.filter((name) => !sourceIds.includes(name)))
      problems.push(`${place} names the source ${source}, which is not configured.`);
    if ((webhook.secret === undefined) === (webhook.secretFile === undefined))
      problems.push(`${place} needs either secret or secretFile.`);
    const address = findEndpointProblem(webhook);
    if (address !== undefined) problems.push(`${place} ${address}`);
    const read = makeSecretReader({ folder, place, problems });
    const text = webhook.secret ?? read("secretFile", webhook.secretFile);
    const secrets = list.parse(text ?? "");
    problems.push(
      ...listSecretProblems(secrets, checkScheme).map((problem) => `${place} secret: ${problem}`),
    );
    if (problems.length > before) return [];
    return {
      endpointId: webhook.name,
      url: webhook.url,
      /** Each secret signs every message, as in Standard Webhooks: `whsec_…` with HMAC, `whsk_…` with ed25519. */
      secrets,
      sourceIds: [...new Set(webhook.sources)],
      /** Null: all. */
      types: webhook.events ?? null,
      /** Only changes to one of these statuses; null: all. */
      statuses: webhook.statuses ?? null,
      fields,
      /** Whether a change waits until earlier ones of the same order are delivered or given up. */
      ordered,
      /** The maximum number of attempts per second; null: any. */
      rate,
      /** Changes are planned, but not sent. */
    };
  });
}

/** Several secrets allow rotation: receivers accept a message if one of their secrets signed it. */
function listSecretProblems(secrets: readonly string[], checkScheme: CheckScheme): string[] {
  const keys = secrets.filter((secret) => secret.startsWith("whsk_"));
  const others = secrets.filter((secret) => !keys.includes(secret));
  const isBroken = keys.some((key) => !SIGNING_KEY.test(key));
  return [
    ...(others.length > 0 ? checkScheme("standard-webhooks", others) : []),
    ...(isBroken ? ["A key that starts with whsk_ must be 32 or 64 bytes in base64."] : []),
  ];
}

/** Orders name people: they are sent encrypted. */
function findEndpointProblem({ url: text }: z.output<typeof webhookSchema>): string | undefined {
  const url = new URL(text);
  return isUnprotected(url)
    ? "url must start with https://: over http anybody on the way can read orders. Only this machine may use http."
    : undefined;
}
