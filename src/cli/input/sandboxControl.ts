import { ConfigurationError, UnavailableError } from "../../domain/errors.ts";
import type { Config } from "../../runtime/config/config.ts";
import { isOnThisMachine } from "../../runtime/config/providerAddress.ts";
import { MARK } from "../../sandbox/world/state.ts";

const ANSWER_TIMEOUT_MS = 15_000;
const [MARK_HEADER] = Object.keys(MARK);

/**
 * The sandbox's URL: `given`, or the configured provider if it is on this machine, or SANDBOX_PORT on this machine.
 * Throws ConfigurationError for any other machine: an injected fault must never reach a real provider.
 */
export function findSandbox(given: string | undefined, config: Config): string {
  const configured = config.sources.map((source) => source.baseUrl).find(isOnThisMachine);
  const address = (given ?? configured ?? `http://127.0.0.1:${config.sandboxPort}`).replace(/\/+$/, "");
  if (isOnThisMachine(address)) return address;
  throw new ConfigurationError(`${address} is not on this machine; only a local sandbox can be controlled.`, {
    fix: "Start one with `order-mirror sandbox` or `order-mirror demo`.",
  });
}

/**
 * Calls the sandbox's control API. Throws ConfigurationError with the sandbox's message if it refuses, and
 * UnavailableError if nothing answers or the answer is not a sandbox's.
 */
export async function askSandbox<Result>(
  sandboxUrl: string,
  { path, body }: { path: string; body: unknown },
): Promise<Result> {
  const answer = await post(`${sandboxUrl}/_sandbox${path}`, body);
  if (answer.headers.get(MARK_HEADER ?? "") === null) {
    throw new UnavailableError(`The server on ${sandboxUrl} is not a sandbox.`, { fix: START });
  }
  const json = (await answer.json()) as unknown;
  if (answer.ok) return json as Result;
  const { error } = json as { error?: { message?: unknown } };
  const message = typeof error?.message === "string" ? error.message : `Its status was ${answer.status}.`;
  if (answer.status >= 500) throw new UnavailableError(`The sandbox failed: ${message}`);
  throw new ConfigurationError(message);
}

const START =
  "Start one with `order-mirror sandbox` or `order-mirror demo`; SANDBOX_PORT or --url says where it is.";

async function post(url: string, body: unknown): Promise<Response> {
  try {
    return await fetch(url, {
      method: "POST",
      redirect: "error",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
    });
  } catch (error) {
    throw new UnavailableError(`No sandbox answers on ${new URL(url).origin}.`, { cause: error, fix: START });
  }
}
