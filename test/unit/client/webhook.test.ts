import { Webhook } from "standardwebhooks";
import { describe, expect, it } from "vitest";
import { verifyWebhook, type WebhookRequest } from "../../../src/client/mirrorClient.ts";
import { ConfigurationError } from "../../../src/domain/errors.ts";
import { makeSigner } from "../../../src/signature/sign.ts";

const secretOf = (letter: string) =>
  `whsec_${Buffer.from(`${letter}0123456789abcdefghijklmnopqrstu`).toString("base64")}`;
const [NEW, OLD] = [secretOf("n"), secretOf("o")];
const body = JSON.stringify({
  type: "order.new",
  timestamp: "2026-03-01T09:00:00Z",
  source: "live",
  data: { reference: "Č-1" },
});
const NOW = 1_772_355_600;

function sign(secrets: readonly string[], text = body): WebhookRequest["headers"] {
  return makeSigner({ secrets })({ id: "msg_1", body: Buffer.from(text), nowSeconds: NOW });
}

const verify = (request: Partial<WebhookRequest>) =>
  verifyWebhook({ headers: sign([NEW]), body, secrets: NEW, nowSeconds: NOW, ...request });

describe("a signed message", () => {
  it("is returned with its id, for headers of Node and fetch, and for text and bytes", () => {
    const message = { id: "msg_1", ...(JSON.parse(body) as object) };
    expect(verify({})).toEqual(message);
    expect(verify({ headers: new Headers(sign([NEW]) as Record<string, string>) })).toEqual(message);
    expect(verify({ body: Buffer.from(body) })).toEqual(message);
    expect(verify({ body: new TextEncoder().encode(body) })).toEqual(message);
  });

  it("is accepted with either secret during a rotation", () => {
    expect(verify({ secrets: [NEW, OLD] }).id).toBe("msg_1");
    expect(verify({ headers: sign([NEW, OLD]), secrets: OLD }).id).toBe("msg_1");
  });

  it("may come from another implementation", () => {
    const at = new Date(NOW * 1_000);
    const headers = {
      "Webhook-Id": "msg_2",
      "Webhook-Timestamp": String(NOW),
      "Webhook-Signature": new Webhook(NEW.slice(6)).sign("msg_2", at, body),
    };
    expect(verify({ headers }).id).toBe("msg_2");
  });
});

describe("a message is refused", () => {
  const { "webhook-signature": _, ...unsigned } = sign([NEW]) as Record<string, string>;
  it.each<[string, Partial<WebhookRequest>, string]>([
    ["that was changed", { body: `${body} ` }, "signature_mismatch"],
    ["that another secret signed", { secrets: OLD }, "signature_mismatch"],
    ["that is old", { nowSeconds: NOW + 301 }, "timestamp_outside_tolerance"],
    ["that nobody signed", { headers: unsigned }, "signature_missing"],
    ["that is no JSON", { headers: sign([NEW], "no"), body: "no" }, "body_unreadable"],
    ["that is no object", { headers: sign([NEW], "null"), body: "null" }, "body_unreadable"],
  ])("%s", (_why, request, reason) => {
    expect(() => verify(request)).toThrow(expect.objectContaining({ name: "WebhookRefusedError", reason }));
  });

  it("when there is no secret, or no usable one", () => {
    for (const secrets of [[], "", "whsec_"]) expect(() => verify({ secrets })).toThrow(ConfigurationError);
  });
});
