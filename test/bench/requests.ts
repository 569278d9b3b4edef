import { makeSigner } from "../../src/signature/sign.ts";
import { at, makeEventBody } from "../support/mirror/orders.ts";
import { WEBHOOK_SECRET } from "../support/signing/signing.ts";

export interface RequestsOrder {
  readonly url: string;
  readonly requests: number;
  /** Makes the events of this round differ from those of every other. */
  readonly round: number;
}

/** Changes per order, spread over the round so that few are in one batch. */
const EVENTS_PER_ORDER = 4;
const NOTE = "x".repeat(300);

const sign = makeSigner({ secrets: [WEBHOOK_SECRET] });

/** Distinct, correctly signed events of about 1 KB as the bytes of their requests, made before the clock starts. */
export function makeRequests({ url, requests, round }: RequestsOrder): Buffer[] {
  const { host, pathname } = new URL(url);
  const nowSeconds = Math.floor(Date.now() / 1_000);
  const orders = Math.ceil(requests / EVENTS_PER_ORDER);
  return Array.from({ length: requests }, (_, index) => {
    const id = `evt_${round}_${index}`;
    const order = { reference: `R${round}-${index % orders}`, updatedAt: at(index), more: { note: NOTE } };
    const body = makeEventBody({ id, order });
    const headers = { host, "content-type": "application/json", "content-length": body.length };
    const lines = Object.entries({ ...headers, ...sign({ id, body, nowSeconds }) })
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join("");
    return Buffer.concat([Buffer.from(`POST ${pathname} HTTP/1.1\r\n${lines}\r\n`), body]);
  });
}
