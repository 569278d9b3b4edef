import { loadScheme } from "../../src/signature/scheme.ts";
import { makeSigner } from "../../src/signature/sign.ts";
import { at, makeEventBody } from "../support/mirror/orders.ts";
import { WEBHOOK_SECRET } from "../support/signing/webhooks.ts";

export interface RequestsOrder {
  readonly url: string;
  readonly requests: number;
  /** Makes the events of this round differ from those of every other. */
  readonly round: number;
  /** Changes per order, spread over the round so that few are in one batch; 4 by default. */
  readonly eventsPerOrder?: number;
  /** Whose events: the provider's, by default, or Stripe's, of customers. */
  readonly sender?: "provider" | "stripe";
}

const EVENTS_PER_ORDER = 4;
const NOTE = "x".repeat(300);

const SIGNERS = {
  provider: makeSigner({ scheme: loadScheme("standard-webhooks"), secret: WEBHOOK_SECRET }),
  stripe: makeSigner({ scheme: loadScheme("stripe"), secret: WEBHOOK_SECRET }),
};

/** Distinct, correctly signed events of about 1 KB as the bytes of their requests, made before the clock starts. */
export function makeRequests({
  url,
  requests,
  round,
  eventsPerOrder = EVENTS_PER_ORDER,
  sender = "provider",
}: RequestsOrder): Buffer[] {
  const { host, pathname } = new URL(url);
  const nowSeconds = Math.floor(Date.now() / 1_000);
  const orders = Math.ceil(requests / eventsPerOrder);
  const makeBody = sender === "stripe" ? makeCustomerEvent : makeOrderEvent;
  return Array.from({ length: requests }, (_, index) => {
    const id = `evt_${round}_${index}`;
    const body = makeBody({ id, subject: `R${round}-${index % orders}`, index });
    const headers = { host, "content-type": "application/json", "content-length": body.length };
    const lines = Object.entries({ ...headers, ...SIGNERS[sender]({ id, body, nowSeconds }) })
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join("");
    return Buffer.concat([Buffer.from(`POST ${pathname} HTTP/1.1\r\n${lines}\r\n`), body]);
  });
}

interface Sketch {
  readonly id: string;
  readonly subject: string;
  readonly index: number;
}

function makeOrderEvent({ id, subject, index }: Sketch): Buffer {
  return makeEventBody({ id, order: { reference: subject, updatedAt: at(index), more: { note: NOTE } } });
}

/** Stripe's event, each a second younger than the one before, because older ones are dropped. */
function makeCustomerEvent({ id, subject, index }: Sketch): Buffer {
  const created = Math.floor(Date.now() / 1_000) + index;
  const address = {
    city: "Berlin",
    country: "DE",
    line1: "Street 1",
    line2: null,
    postal_code: "10115",
    state: null,
  };
  const object = {
    id: `cus_${subject}`,
    object: "customer",
    address,
    balance: 0,
    created,
    currency: "eur",
    default_source: null,
    delinquent: false,
    description: null,
    email: "somebody@example.org",
    invoice_prefix: "A1B2C3",
    livemode: true,
    metadata: { note: NOTE },
    name: "Somebody",
    phone: null,
    preferred_locales: ["de"],
    shipping: null,
    tax_exempt: "none",
  };
  const event = { id, object: "event", api_version: "2020-08-27", created, livemode: true };
  return Buffer.from(JSON.stringify({ ...event, type: "customer.updated", data: { object } }));
}
