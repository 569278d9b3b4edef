import type { RequestListener } from "node:http";
import { makeErrorAnswer, refuseAnyAddress, stampAnswer } from "../api/respond.ts";
import type { Config } from "../config/config.ts";
import { checkAddress } from "../process/checkAddress.ts";
import { listen, type ListeningServer } from "../process/httpServer.ts";
import { systemClock } from "../process/clock.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import { setAnswerHeaders } from "./answerHeaders.ts";
import type { Handler, Mirror } from "./createMirror.ts";

/** The addresses at which a web process answers; the two are the same unless WEBHOOK_PORT is set. */
export interface WebAddress {
  readonly url: string;
  readonly webhooksUrl: string;
}

type Place = Pick<Config, "host" | "port" | "webhookPort" | "publicUrls">;
type Serving = WebAddress & Pick<ListeningServer, "close">;

/**
 * Serves a mirror at HOST and PORT: on one port, or with WEBHOOK_PORT on one for webhooks and one for everything else.
 */
export async function serve(mirror: Mirror, place: Place, logger: Logger): Promise<Serving> {
  const { host, port, webhookPort, publicUrls } = place;
  const open = (listener: RequestListener, at: number, portVariable: string) =>
    listen(listener, { host, port: at, portVariable, clock: systemClock, logger });
  const toOps: Handler = ({ url }, response, next) =>
    url === "/" ? void response.writeHead(303, { Location: "/ops/start" }).end() : next();
  const readers = answerOnly([mirror.api, mirror.ops, mirror.probes, toOps], logger);
  const answer = checkAddress(readers, { host, publicUrls });
  if (webhookPort === null) {
    // Without the check of the name: senders may use any that leads here, and prove who they are.
    const receive: RequestListener = (request, response) =>
      mirror.webhooks(request, response, () => answer(request, response));
    const server = await open(receive, port, "PORT");
    return { url: server.url, webhooksUrl: server.url, close: server.close };
  }
  const webhooks = await open(answerOnly([mirror.webhooks], logger), webhookPort, "WEBHOOK_PORT");
  const rest = await open(answer, port, "PORT").catch(async (error: unknown) => {
    await webhooks.close();
    throw error;
  });
  const close = async () => void (await Promise.all([webhooks.close(), rest.close()]));
  return { url: rest.url, webhooksUrl: webhooks.url, close };
}

/** Answers with these handlers alone, one after the other until one answers, and 404 to what they leave. */
export function answerOnly(given: readonly Handler[], logger: Logger): RequestListener {
  const handlers = [...given, setAnswerHeaders, stampAnswer, refuseAnyAddress];
  const answerError = makeErrorAnswer(logger);
  return (request, response) => {
    const call = (place: number, error?: unknown): void => {
      try {
        if (error !== undefined && error !== null)
          answerError(error, request, response, () => response.destroy());
        else handlers[place]?.(request, response, (next) => call(place + 1, next));
      } catch (thrown) {
        call(place + 1, thrown);
      }
    };
    call(0);
  };
}
