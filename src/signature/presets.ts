import type { SchemeInput } from "./scheme.ts";

/**
 * Schemes of known senders, ready to name in WEBHOOK_SCHEME; the likeliest for the provider come first. The spec
 * does not show the provider's own scheme, so `standard-webhooks`, the strongest with a public specification, is
 * the default.
 */
export const PRESETS: Readonly<Record<string, SchemeInput>> = {
  "standard-webhooks": {
    encoding: "base64",
    header: "webhook-signature",
    prefix: "v1,",
    separator: " ",
    signed: "{id}.{timestamp}.{body}",
    timestamp: { header: "webhook-timestamp" },
    idHeader: "webhook-id",
    secretFormat: "whsec",
  },
  stripe: {
    header: "stripe-signature",
    prefix: "v1=",
    separator: ",",
    signed: "{timestamp}.{body}",
    timestamp: { part: "t=" },
  },
  "hmac-hex": {
    header: "x-signature",
  },
  github: {
    header: "x-hub-signature-256",
    prefix: "sha256=",
  },
  "standard-webhooks-ed25519": {
    algorithm: "ed25519",
    encoding: "base64",
    header: "webhook-signature",
    prefix: "v1a,",
    separator: " ",
    signed: "{id}.{timestamp}.{body}",
    timestamp: { header: "webhook-timestamp" },
    idHeader: "webhook-id",
    secretFormat: "whpk",
  },
  svix: {
    encoding: "base64",
    header: "svix-signature",
    prefix: "v1,",
    separator: " ",
    signed: "{id}.{timestamp}.{body}",
    timestamp: { header: "svix-timestamp" },
    idHeader: "svix-id",
    secretFormat: "whsec",
  },
  onfleet: {
    algorithm: "hmac-sha512",
    header: "x-onfleet-signature",
    secretFormat: "hex",
  },
  slack: {
    header: "x-slack-signature",
    prefix: "v0=",
    signed: "v0:{timestamp}:{body}",
    timestamp: { header: "x-slack-request-timestamp" },
  },
  shopify: {
    encoding: "base64",
    header: "x-shopify-hmac-sha256",
  },
  uber: {
    header: "x-uber-signature",
  },
  easypost: {
    header: "x-hmac-signature",
    prefix: "hmac-sha256-hex=",
    secretFormat: "utf8-nfkd",
  },
  paddle: {
    header: "paddle-signature",
    prefix: "h1=",
    separator: ";",
    signed: "{timestamp}:{body}",
    timestamp: { part: "ts=" },
    toleranceSeconds: 5,
  },
  square: {
    encoding: "base64",
    header: "x-square-hmacsha256-signature",
    signed: "{url}{body}",
  },
  outpost: {
    header: "x-outpost-signature",
    prefix: "v0=",
    prefixOn: "first",
    separator: ",",
  },
  "adcp-legacy": {
    header: "x-adcp-signature",
    prefix: "sha256=",
    signed: "{timestamp}.{body}",
    timestamp: { header: "x-adcp-timestamp" },
  },
  twitch: {
    header: "twitch-eventsub-message-signature",
    prefix: "sha256=",
    signed: "{id}{timestamp}{body}",
    timestamp: { header: "twitch-eventsub-message-timestamp", unit: "iso" },
    idHeader: "twitch-eventsub-message-id",
    toleranceSeconds: 600,
  },
  zendesk: {
    encoding: "base64",
    header: "x-zendesk-webhook-signature",
    signed: "{timestamp}{body}",
    timestamp: { header: "x-zendesk-webhook-signature-timestamp", unit: "iso" },
  },
  "courier.com": {
    header: "courier-signature",
    prefix: "signature=",
    separator: ",",
    signed: "{timestamp}.{body}",
    timestamp: { part: "t=", unit: "ms" },
  },
  sendgrid: {
    algorithm: "ecdsa-p256-sha256",
    encoding: "base64",
    header: "x-twilio-email-event-webhook-signature",
    signed: "{timestamp}{body}",
    timestamp: { header: "x-twilio-email-event-webhook-timestamp" },
    secretFormat: "spki",
  },
  /** For events with a JSON body; events with a form body are not received. */
  twilio: {
    algorithm: "hmac-sha1",
    encoding: "base64",
    header: "x-twilio-signature",
    signed: "{url}?bodySHA256={body:sha256:hex}",
  },
};
