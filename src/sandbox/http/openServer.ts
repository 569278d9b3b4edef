import http from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { listenOn, localUrl } from "../../runtime/http/httpServer.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";

type AnswerHttp = (request: IncomingMessage, response: ServerResponse, url: URL) => Promise<void>;

/** Starts listening. Throws UnavailableError if the port is taken. */
export async function openServer(deps: {
  answerApi: AnswerHttp;
  answerControl: AnswerHttp;
  /** A complete answer to a request that is not HTTP, by the parser's code. */
  answerUnreadable: (code: string | undefined) => string;
  logger: Logger;
  signal: AbortSignal;
  host: string;
  port: number;
}) {
  const { answerApi, answerControl, answerUnreadable, logger, signal, host, port } = deps;
  const server = http.createServer((request, response) => {
    const url = readUrl(request);
    const answer = isControl(url.pathname) ? answerControl : answerApi;
    answer(request, response, url).catch((error: unknown) => {
      // Aborted: the shutdown cut the injected latency short, or the client is gone.
      if (!signal.aborted) logger.error({ err: error }, "a request could not be answered");
      request.socket.destroy();
    });
  });
  server.on("clientError", (error: Error & { code?: string }, socket) => {
    if (socket.writable) socket.end(answerUnreadable(error.code));
    else socket.destroy();
  });
  const bound = await listenOn(server, { host, port, portVariable: "SANDBOX_PORT" });
  return {
    url: localUrl(host, bound),
    port: bound,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function isControl(path: string): boolean {
  return path === "/_sandbox" || path.startsWith("/_sandbox/");
}

/** A target that is not a path, such as `//` or `*`, is answered like an unknown path. */
function readUrl(request: IncomingMessage): URL {
  const target = request.url ?? "/";
  const base = "http://sandbox";
  return target.startsWith("/") && URL.canParse(base + target) ? new URL(base + target) : new URL("/*", base);
}
