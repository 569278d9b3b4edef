import { OUTGOING_TYPES } from "../domain/order/outgoing.ts";
import type { OutgoingType } from "../domain/order/outgoing.ts";
import type { SchemaName } from "./openapi.ts";
import { endpoint } from "./openapiEndpoints.ts";
import type { ApiAnswer, ApiEndpoint } from "./openapiEndpoints.ts";

const eventRefusal = (description: string): ApiAnswer => ({ description, schema: "EventRefusal" });

const SIGNATURE = {
  "webhook-timestamp": "Seconds since 1970.",
  "webhook-signature": "Signatures of id, timestamp and body.",
};

/** The endpoint for events from the provider. */
export const INCOMING: readonly ApiEndpoint[] = [
  endpoint(["receiveEvent", "post", "/webhooks/{source}"], "Webhooks", "Receive an event from the provider", {
    description:
      "Signed according to WEBHOOK_SCHEME; the headers shown are those of Standard Webhooks. Answered once the event is stored.",
    headers: { "webhook-id": "The event's id.", ...SIGNATURE },
    body: "Event",
    open: true,
    answers: {
      200: { description: "Stored, now or earlier; without a body." },
      400: eventRefusal("An empty body, or contradictory headers."),
      401: eventRefusal("No valid signature."),
      404: eventRefusal("The source does not exist or has no secrets."),
      413: eventRefusal("The body is too large."),
      415: eventRefusal("Not JSON, or a content encoding."),
      500: eventRefusal("A mistake of the mirror; send it again."),
      503: eventRefusal("It cannot be stored now; send it again."),
    },
  }),
];

function outgoing(type: string, summary: string, body: SchemaName): ApiEndpoint {
  const words = type.split(/[._]/).map((word) => word.charAt(0).toUpperCase() + word.slice(1));
  return endpoint([`on${words.join("")}`, "post", type], "Webhooks", summary, {
    description:
      "Sent to the endpoints of OUTGOING_WEBHOOKS_FILE; signed as in Standard Webhooks. What a change shows of its orders depends on the endpoint's `fields`.",
    headers: { "webhook-id": "The message's id, the same in each repetition.", ...SIGNATURE },
    body,
    open: true,
    answers: {
      "2XX": { description: "Accepted, within 15 s." },
      410: { description: "The endpoint wants no further attempt of this message." },
      default: { description: "The message is sent again later; Retry-After is respected." },
    },
  });
}

const MEANINGS: Readonly<Record<OutgoingType, string>> = {
  "order.new": "An order that the mirror had not seen",
  "order.status_changed": "An order has another status",
  "order.gone": "The provider no longer has an order",
  "order.changed": "Anything else of an order has changed",
};

/** The messages to the business's own endpoints, by type. */
export const OUTGOING: readonly ApiEndpoint[] = [
  ...OUTGOING_TYPES.map((type) => outgoing(type, MEANINGS[type], "OutgoingMessage")),
  outgoing("test", "Somebody tries the endpoint", "TestMessage"),
  outgoing("changes.missed", "Changes were removed before they could be sent", "MissedMessage"),
];
