import { request } from "node:http";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { makeSigner } from "../../../src/signature/sign.ts";

export const WEBHOOK_SECRET = `whsec_${Buffer.from("a secret of thirty-two bytes!!!!").toString("base64")}`;

/** Sends one signed event, signed now or at `signedAt` (seconds since 1970). Resolves with the status; null when no answer arrived, so that the outcome is unknown. */
export function sendEvent(
  url: string,
  event: { id: string; body: Buffer; signedAt?: number },
  secret = WEBHOOK_SECRET,
): Promise<number | null> {
  const sign = makeSigner({ scheme: loadScheme("standard-webhooks"), secret });
  const nowSeconds = event.signedAt ?? Math.floor(Date.now() / 1_000);
  const headers = sign({ id: event.id, body: event.body, nowSeconds });
  return new Promise((resolve) => {
    const sending = request(url, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json", "content-length": event.body.length },
      timeout: 10_000,
    });
    sending.once("response", (response) => {
      response.resume();
      response.once("end", () => resolve(response.statusCode ?? null));
      response.once("error", () => resolve(null));
    });
    sending.once("error", () => resolve(null));
    sending.once("timeout", () => sending.destroy());
    sending.end(event.body);
  });
}
