import { createServer, type Server as HttpServer } from "node:http";
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
