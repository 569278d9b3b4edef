import { sign as signLikeGitHub } from "@octokit/webhooks-methods";
import fc from "fast-check";
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";

export const NOW = 1_790_000_000;
export interface Letter {
  readonly id: string;
  readonly at: number;
  readonly text: string;
}

export interface Sender {
  /** The preset to identify. */
  readonly preset: string;
  readonly secretOf: (bytes: Uint8Array) => string;
  readonly sign: (letter: Letter, secret: string) => Promise<Record<string, string>> | Record<string, string>;
}

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");
const standardWebhooks = (name: string): Pick<Sender, "secretOf" | "sign"> => ({
  secretOf: (bytes) => `whsec_${base64(bytes)}`,
  sign: ({ id, at, text }, secret) => ({
    [`${name}-id`]: id,
    [`${name}-timestamp`]: String(at),
    [`${name}-signature`]: new Webhook(secret).sign(id, new Date(at * 1_000), text),
  }),
});

/** Requests signed by the senders' own libraries. */
export const SENDERS: Readonly<Record<string, Sender>> = {
  standardwebhooks: { preset: "standard-webhooks", ...standardWebhooks("webhook") },
  "standardwebhooks under the headers of Svix": { preset: "svix", ...standardWebhooks("svix") },
  stripe: {
    preset: "stripe",
    secretOf: (bytes) => `whsec_${base64(bytes)}`,
    sign: ({ at, text }, secret) => ({
      "stripe-signature": Stripe.webhooks.generateTestHeaderString({ payload: text, secret, timestamp: at }),
    }),
  },
  "@octokit/webhooks-methods": {
    preset: "github",
    secretOf: (bytes) => `secret ${base64(bytes)}`,
    sign: async ({ text }, secret) => ({ "x-hub-signature-256": await signLikeGitHub(secret, text) }),
  },
};

const letter = fc.record({
  id: fc.stringMatching(/^[A-Za-z0-9_-]{1,40}$/),
  at: fc.integer({ min: NOW - 300, max: NOW + 300 }),
  text: fc
    .record({ id: fc.string({ maxLength: 40 }), note: fc.string({ unit: "grapheme", maxLength: 200 }) })
    .map((fields) => JSON.stringify(fields)),
});
/** A secret, and three letters with different texts. */
export const draw = fc.record({
  bytes: fc.uint8Array({ minLength: 24, maxLength: 64 }),
  letters: fc.uniqueArray(letter, { minLength: 3, maxLength: 3, selector: ({ text }) => text }),
});
