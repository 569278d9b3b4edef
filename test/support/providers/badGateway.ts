import {
  createServer,
  request as sendRequest,
  type IncomingHttpHeaders,
  type ServerResponse,
} from "node:http";
import { listenHere } from "../http/serve.ts";

/** The provider's answer, before it was spoilt. */
export interface GoodAnswer {
  readonly url: URL;
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** Answers instead of the provider. */
export type Spoil = (response: ServerResponse, good: GoodAnswer) => void;

export type BadGateway = Awaited<ReturnType<typeof startBadGateway>>;

/** In front of `providerUrl`. */
export async function startBadGateway(providerUrl: string) {
  let how: Spoil | undefined;
  let spoilt = 0;
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", providerUrl);
    const { method = "GET", headers } = request;
    const onward = sendRequest(url, { method, headers: { ...headers, host: url.host } }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on("data", (chunk: Buffer) => chunks.push(chunk));
      answer.on("end", () => {
        const body = Buffer.concat(chunks).toString();
        const good = { url, status: answer.statusCode ?? 0, headers: answer.headers, body };
        if (how === undefined || good.status !== 200) return handOn(response, good);
        spoilt += 1;
        how(response, good);
      });
    });
    onward.on("error", () => response.destroy());
    request.pipe(onward);
  });
  const { url, close } = await listenHere(server);
  return {
    url,
    /** Answers that were spoilt since the last call of `spoil`. */
    get spoilt() {
      return spoilt;
    },
    /** Takes effect immediately; undefined forwards answers unchanged. */
    spoil(next: Spoil | undefined) {
      how = next;
      spoilt = 0;
    },
    close,
  };
}

/** The answer, with other parts where given. */
export function handOn(
  response: ServerResponse,
  good: GoodAnswer,
  { status = good.status, headers = {}, body = good.body }: Partial<Omit<GoodAnswer, "url">> = {},
): void {
  const { "content-length": _length, "transfer-encoding": _coding, connection: _own, ...kept } = good.headers;
  response.writeHead(status, { ...kept, ...headers }).end(body);
}

/** Spoils the answers to GET /v1/orders only. */
export function ofLists(spoil: Spoil): Spoil {
  return (response, good) =>
    good.url.pathname === "/v1/orders" ? spoil(response, good) : handOn(response, good);
}

/** Changes the JSON of a list page. */
export function changePage(change: (page: ListPage) => unknown): Spoil {
  return ofLists((response, good) =>
    handOn(response, good, { body: JSON.stringify(change(JSON.parse(good.body) as ListPage)) }),
  );
}

interface ListPage {
  readonly data: readonly Record<string, unknown>[];
  readonly hasMore: boolean;
}
