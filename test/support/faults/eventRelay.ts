import { createServer } from "node:http";
import { buffer } from "node:stream/consumers";
import { listenHere } from "../http/serve.ts";

const TIMEOUT_MS = 8_000;

export type EventRelay = Awaited<ReturnType<typeof startEventRelay>>;

/** Relays events from provider to receiver, and keeps its own record of what the receiver acknowledged. */
export async function startEventRelay(receiverUrl: string) {
  const acknowledged = new Set<string>();
  /** How many deliveries were refused, and how many got no answer, so that their outcome is unknown. */
  const counts = { refused: 0, unknown: 0 };
  const server = createServer((request, response) => {
    void (async () => {
      const body = await buffer(request);
      const signed = Object.entries(request.headers).filter(
        ([name]) => name.startsWith("webhook-") || name === "content-type",
      );
      const status = await fetch(receiverUrl, {
        method: "POST",
        headers: Object.fromEntries(signed) as Record<string, string>,
        body: new Uint8Array(body),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      }).then(
        (answer) => answer.status,
        () => undefined,
      );
      if (status === 200) acknowledged.add((JSON.parse(body.toString()) as { id: string }).id);
      else counts[status === undefined ? "unknown" : "refused"] += 1;
      response.writeHead(status ?? 502).end();
    })().catch(() => response.destroy());
  });
  const { url, close } = await listenHere(server);
  return {
    url: `${url}/webhooks/live`,
    acknowledged,
    counts,
    close,
  };
}
