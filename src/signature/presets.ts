/** Standard Webhooks, under the names of its headers that a sender uses. */
function standardWebhooks(name: string) {
  return {
    encoding: "base64",
    header: `${name}-signature`,
    prefix: "v1,",
    separator: " ",
    signed: "{id}.{timestamp}.{body}",
    timestamp: { header: `${name}-timestamp` },
    idHeader: `${name}-id`,
    secretFormat: "whsec",
  } as const;
}

const sha256 = { header: "x-hub-signature-256", prefix: "sha256=" };
const afterTime = { separator: ",", signed: "{timestamp}.{body}" } as const;
const signedTime = (header: string, unit: "s" | "iso" = "s") => ({ timestamp: { header, unit } });

/**
 * Schemes of known senders, ready to name in WEBHOOK_SCHEME; the likeliest for the provider come first. The spec
 * does not show the provider's own scheme, so `standard-webhooks`, the strongest with a public specification, is
 * the default.
 */
export const PRESETS: Readonly<Record<string, object>> = {
  "standard-webhooks": standardWebhooks("webhook"),
  stripe: { ...afterTime, header: "stripe-signature", prefix: "v1=", timestamp: { part: "t=" } },
  "hmac-hex": { header: "x-signature" },
  github: sha256,
  "standard-webhooks-ed25519": {
    ...standardWebhooks("webhook"),
    algorithm: "ed25519",
    prefix: "v1a,",
    secretFormat: "whpk",
  },
  svix: standardWebhooks("svix"),
  onfleet: { algorithm: "hmac-sha512", header: "x-onfleet-signature", secretFormat: "hex" },
  slack: {
    ...signedTime("x-slack-request-timestamp"),
    header: "x-slack-signature",
    prefix: "v0=",
    signed: "v0:{timestamp}:{body}",
  },
  shopify: { encoding: "base64", header: "x-shopify-hmac-sha256" },
  uber: { header: "x-uber-signature" },
  easypost: { header: "x-hmac-signature", prefix: "hmac-sha256-hex=", secretFormat: "utf8-nfkd" },
  paddle: {
    header: "paddle-signature",
    prefix: "h1=",
    separator: ";",
    signed: "{timestamp}:{body}",
    timestamp: { part: "ts=" },
    toleranceSeconds: 5,
  },
  square: { encoding: "base64", header: "x-square-hmacsha256-signature", signed: "{url}{body}" },
  outpost: { header: "x-outpost-signature", prefix: "v0=", prefixOn: "first", separator: "," },
  "adcp-legacy": {
    ...sha256,
    ...signedTime("x-adcp-timestamp"),
    header: "x-adcp-signature",
    signed: "{timestamp}.{body}",
  },
  twitch: {
    ...sha256,
    ...signedTime("twitch-eventsub-message-timestamp", "iso"),
    header: "twitch-eventsub-message-signature",
    signed: "{id}{timestamp}{body}",
    idHeader: "twitch-eventsub-message-id",
    toleranceSeconds: 600,
  },
  zendesk: {
    ...signedTime("x-zendesk-webhook-signature-timestamp", "iso"),
    encoding: "base64",
    header: "x-zendesk-webhook-signature",
    signed: "{timestamp}{body}",
  },
  "courier.com": {
    ...afterTime,
    header: "courier-signature",
    prefix: "signature=",
    timestamp: { part: "t=", unit: "ms" },
  },
  sendgrid: {
    ...signedTime("x-twilio-email-event-webhook-timestamp"),
    algorithm: "ecdsa-p256-sha256",
    encoding: "base64",
    header: "x-twilio-email-event-webhook-signature",
    signed: "{timestamp}{body}",
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
