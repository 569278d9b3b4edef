import { createHash } from "node:crypto";
import { sign as signLikeGitHub } from "@octokit/webhooks-methods";
import fc from "fast-check";
import { createSigner, httpbis } from "http-message-signatures";
import { SignJWT } from "jose";
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";
import type { CapturedRequest } from "../../../src/signature/identify/candidates.ts";
import { ENDPOINT_URL } from "./signing.ts";

export const NOW = 1_790_000_000;
export interface Letter {
  readonly id: string;
  readonly at: number;
  readonly text: string;
}

export interface Sender {
  /** The preset to identify; null when there is none, and its fields must be identified. */
  readonly preset: string | null;
  readonly secretOf: (bytes: Uint8Array) => string;
  readonly sign: (letter: Letter, secret: string) => Promise<Record<string, string>> | Record<string, string>;
}

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");
const secretText = (bytes: Uint8Array) => `secret ${base64(bytes)}`;
const sha256 = (text: string) => createHash("sha256").update(text);

/** Requests signed by the senders' own libraries. */
export const SENDERS: Readonly<Record<string, Sender>> = {
  standardwebhooks: {
    preset: "standard-webhooks",
    secretOf: (bytes) => `whsec_${base64(bytes)}`,
    sign: ({ id, at, text }, secret) => ({
      "webhook-id": id,
      "webhook-timestamp": String(at),
      "webhook-signature": new Webhook(secret).sign(id, new Date(at * 1_000), text),
    }),
  },
  "standardwebhooks under the headers of Svix": {
    preset: "svix",
    secretOf: (bytes) => `whsec_${base64(bytes)}`,
    sign: ({ id, at, text }, secret) => ({
      "svix-id": id,
      "svix-timestamp": String(at),
      "svix-signature": new Webhook(secret).sign(id, new Date(at * 1_000), text),
    }),
  },
  stripe: {
    preset: "stripe",
    secretOf: (bytes) => `whsec_${base64(bytes)}`,
    sign: ({ at, text }, secret) => ({
      "stripe-signature": Stripe.webhooks.generateTestHeaderString({ payload: text, secret, timestamp: at }),
    }),
  },
  "@octokit/webhooks-methods": {
    preset: "github",
    secretOf: secretText,
    sign: async ({ text }, secret) => ({ "x-hub-signature-256": await signLikeGitHub(secret, text) }),
  },
  jose: {
    preset: null,
    secretOf: secretText,
    sign: async ({ at, text }, secret) => ({
      authorization: `Bearer ${await new SignJWT({ request_body_sha256: sha256(text).digest("hex") })
        .setProtectedHeader({ alg: "HS256" })
        .setIssuedAt(at)
        .sign(Buffer.from(secret))}`,
    }),
  },
  "http-message-signatures": {
    preset: null,
    secretOf: secretText,
    sign: async ({ at, text }, secret) => {
      const { headers } = await httpbis.signMessage(
        {
          key: createSigner(Buffer.from(secret), "hmac-sha256", "k1"),
          fields: ["@method", "@target-uri", "content-digest"],
          params: ["created", "keyid", "alg"],
          paramValues: { created: new Date(at * 1_000) },
        },
        {
          method: "POST",
          url: ENDPOINT_URL,
          headers: { "content-digest": `sha-256=:${sha256(text).digest("base64")}:` },
        },
      );
      return headers as Record<string, string>;
    },
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

export function capture(headers: Record<string, string>, { text }: Letter): CapturedRequest {
  const all = { "content-type": "application/json", ...headers };
  return {
    headersDistinct: Object.fromEntries(
      Object.entries(all).map(([name, value]) => [name.toLowerCase(), [value]]),
    ),
    body: Buffer.from(text),
    target: "/webhooks/live",
  };
}
