import { createServer, type Server as HttpServer, request, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo, Server } from "node:net";
import express, { type RequestHandler } from "express";

export type TestServer = Awaited<ReturnType<typeof listenHere>>;

/** Lets a server listen on a port of 127.0.0.1, a free one unless it is given; `url` has no slash at the end. */
export async function listenHere(server: Server, asked = 0) {
  await new Promise<void>((resolve) => server.listen(asked, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const close = async (): Promise<void> => {
    if ("closeAllConnections" in server) (server as HttpServer).closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return { port, url: `http://127.0.0.1:${port}`, close };
}

/** Serves the routers on a free port of 127.0.0.1. */
export function serve(...routers: RequestHandler[]): Promise<TestServer> {
  return serveAt(0, ...routers);
}

/** Serves the routers on a port of 127.0.0.1; 0: a free one. */
export function serveAt(asked: number, ...routers: RequestHandler[]): Promise<TestServer> {
  return listenHere(createServer(express().use(...routers)), asked);
}

export interface Answer {
  readonly status: number | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/**
 * A request with exactly this address and these headers. Not fetch, which normalizes the address, and chooses Host,
 * Origin and Sec-Fetch-Site by itself.
 */
export function ask(
  url: string,
  options: { method?: string; headers?: Record<string, string>; body?: string } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { method = "GET", headers = {}, body } = options;
    const { origin, hostname, port } = new URL(url);
    const path = url.slice(origin.length) || "/";
    request({ hostname, port, path, method, headers }, (response) => {
      let text = "";
      response
        .setEncoding("utf8")
        .on("data", (chunk: string) => (text += chunk))
        .on("end", () => resolve({ status: response.statusCode, headers: response.headers, body: text }));
    })
      .on("error", reject)
      .end(body);
  });
}

/** Logs in to the ops pages as a person does, and returns the header that a browser then sends. */
export async function logIn(url: string, password: string): Promise<{ Cookie: string }> {
  const body = new URLSearchParams({ password });
  const { headers, status } = await fetch(`${url}/ops/login`, { method: "POST", body, redirect: "manual" });
  if (status !== 303) throw new Error(`the login answers ${status}`);
  return {
    Cookie: headers
      .getSetCookie()
      .map((line) => line.split(";")[0])
      .join("; "),
  };
}
