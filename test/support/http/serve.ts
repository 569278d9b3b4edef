import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import express from "express";
import type { RequestHandler } from "express";

export interface TestServer {
  /** Base address without a slash at the end. */
  readonly url: string;
  close(): Promise<void>;
}

/** Serves the routers on a free port of 127.0.0.1. */
export function serve(...routers: RequestHandler[]): Promise<TestServer> {
  return serveAt(0, ...routers);
}

/** Serves the routers on a port of 127.0.0.1; 0: a free one. */
export async function serveAt(asked: number, ...routers: RequestHandler[]): Promise<TestServer> {
  const server = createServer(express().use(...routers));
  await new Promise<void>((resolve) => server.listen(asked, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return { url: `http://127.0.0.1:${port}`, close };
}
