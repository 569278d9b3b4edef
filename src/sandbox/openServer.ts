import http from "node:http";
import type { AddressInfo } from "node:net";
import { UnavailableError } from "../domain/errors.ts";
import { millisFromInstant } from "../domain/instant.ts";
import type { Clock } from "../runtime/clock.ts";
import { makeApiServer } from "./apiServer.ts";
import { makeEndpoints } from "./endpoints.ts";
import { makeJournal } from "./journal.ts";
import { makeRateLimiter } from "./rateLimits.ts";
import type { WindowKind } from "./rateLimits.ts";
import type { SandboxState } from "./sandboxState.ts";
import type { WorkLoop } from "./workLoop.ts";

export interface SandboxServer {
  readonly url: string;
  readonly port: number;
  readonly close: () => Promise<void>;
}

/** Starts to listen. Throws UnavailableError when the port is taken. */
export async function openServer(deps: {
  state: SandboxState;
  loop: WorkLoop;
  systemClock: Clock;
  signal: AbortSignal;
  rules: { enforced: boolean; kind: WindowKind };
  host: string;
  port: number;
}): Promise<SandboxServer> {
  const { state, systemClock, signal, rules, host, port } = deps;
  const journal = makeJournal();
  const limiter = makeRateLimiter({ nowMs: () => millisFromInstant(state.clock.now()), ...rules });
  const answerApi = makeApiServer({
    state,
    endpoints: makeEndpoints(state),
    limiter,
    journal,
    systemClock,
    signal,
  });
  const server = http.createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://sandbox");
    answerApi(request, response, url).catch((error: unknown) => {
      // Latency that the shutdown cut short, or a client that is gone.
      if (!signal.aborted) state.logger.error({ err: error }, "a request could not be answered");
      request.socket.destroy();
    });
  });
  await listen(server, host, port);
  const address = server.address() as AddressInfo;
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${address.port}`,
    port: address.port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function listen(server: http.Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (error: Error) =>
      reject(
        new UnavailableError(`The sandbox cannot listen on ${host}:${port}.`, {
          cause: error,
          fix: "Choose another port with SANDBOX_PORT.",
        }),
      );
    server.once("error", fail);
    server.listen(port, host, () => {
      server.off("error", fail);
      resolve();
    });
  });
}
