import { createHash } from "node:crypto";
import { z } from "zod";
import { OUTGOING_FIELDS, OUTGOING_TYPES } from "../domain/order/outgoing.ts";
import { loadScheme } from "../signature/scheme.ts";
import { checkScheme, loadVerifier } from "../signature/verifier.ts";
import { listName, parseList, type Listed } from "./lists.ts";
import { splitList, targetAddress } from "./kinds.ts";

/** An endpoint of the business's own, which is notified of changes. */
export type OutgoingWebhook = ReturnType<typeof readEndpoints>[number];

const STATUS_LENGTH_MAX = 255;
const RATE_MAX = 1_000;

/** The listed endpoints, without those that have a problem. */
export function readEndpoints(listed: Listed, isUnknown: (sourceId: string) => boolean, problems: string[]) {
  const endpoints = parseList(listed, makeEndpointSchema(isUnknown), problems);
  const names = endpoints.map(({ endpointId }) => endpointId);
  for (const name of names.filter((each, index) => names.indexOf(each) < index))
    problems.push(`${listed.name} lists the endpoint ${name} twice. Use different names.`);
  return endpoints;
}

function makeEndpointSchema(isUnknown: (sourceId: string) => boolean) {
  return z
    .strictObject({
      name: listName,
      url: targetAddress,
      secret: z
        .string()
        .transform(splitList)
        .refine((secrets) => secrets.length > 0, "is empty"),
      sources: z.array(z.string()).min(1),
      events: z.array(z.enum(OUTGOING_TYPES)).min(1).nullable().default(null),
      statuses: z.array(z.string().min(1).max(STATUS_LENGTH_MAX)).min(1).nullable().default(null),
      // Whoever wants people's names and addresses in another system has to say so.
      fields: z.enum(OUTGOING_FIELDS).default("redacted"),
      ordered: z.boolean().default(false),
      rate: z.int().min(1).max(RATE_MAX).nullable().default(null),
    })
    .superRefine(({ secret, sources }, context) => {
      const report = (field: string, message: string) =>
        context.addIssue({ code: "custom", path: [field], message });
      for (const source of sources.filter(isUnknown))
        report("sources", `has ${source}, which is not configured`);
      for (const problem of listOwnSecretProblems(secret)) report("secret", `is wrong: ${problem}`);
    })
    .transform(({ name, url, secret, sources, events, statuses, fields, ordered, rate }) => {
      const endpoint = {
        endpointId: name,
        url,
        /** Each secret signs every message, as in Standard Webhooks. */
        secrets: secret,
        sourceIds: [...new Set(sources)],
        /** Null: all. */
        types: events,
        /** Only changes to one of these statuses; null: all. */
        statuses,
        fields,
        /** Whether a change waits until earlier ones of the same order are delivered or given up. */
        ordered,
        /** The maximum number of attempts per second; null: any. */
        rate,
      };
      /** Differs between processes that list the endpoint differently. */
      return { ...endpoint, definition: digest(JSON.stringify(endpoint)) };
    });
}

const digest = (text: string) => createHash("sha256").update(text).digest("hex").slice(0, 32);

/**
 * The faults of secrets that we sign with, one sentence each. Receivers accept a message if one of their secrets
 * signed it, so several allow rotation. A provider may issue short ones; ours are long enough not to be guessed.
 */
export function listOwnSecretProblems(secrets: readonly string[]): string[] {
  const problems = checkScheme("standard-webhooks", secrets);
  if (problems.length > 0 || secrets.length === 0) return problems;
  const { warnings } = loadVerifier({ scheme: loadScheme("standard-webhooks"), secrets });
  return warnings.map((warning) => `Webhook ${warning}.`);
}
