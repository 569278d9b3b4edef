import type { IncomingMessage, ServerResponse } from "node:http";

/** A request on its way through a router, which adds what the path says. */
export interface RoutedRequest extends IncomingMessage {
  /** Without the part that the routers before this one have taken. */
  readonly url: string;
  readonly originalUrl: string;
  readonly params: Readonly<Record<string, string | string[]>>;
}

/**
 * Answers a route of the read API with what Node offers: Express's own methods of requests and responses are not there,
 * because only an application adds them, and that costs more than reading an order.
 */
export type Route = (request: RoutedRequest, response: ServerResponse) => unknown;

/** Answers a request, or passes it on. */
export type Middleware<Request = IncomingMessage> = (
  request: Request,
  response: ServerResponse,
  next: (error?: unknown) => void,
) => unknown;

/** Sets several headers of an answer. */
export function setHeaders(response: ServerResponse, headers: Readonly<Record<string, string>>): void {
  for (const name in headers) response.setHeader(name, headers[name] ?? "");
}
