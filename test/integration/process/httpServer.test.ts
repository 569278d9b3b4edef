import type { RequestListener } from "node:http";
import { connect, type Socket } from "node:net";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { describe, expect, it, onTestFinished } from "vitest";
import { makeHttpServer, SERVER_LIMITS, type ServerLimits } from "../../../src/process/httpServer.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { makeHead, openRaw, sendRaw, type RawConnection } from "../../support/http/rawHttp.ts";
import { logInto } from "../../support/run/logInto.ts";
import { listenHere } from "../../support/http/serve.ts";

const lines: string[] = [];
const logger = logInto((line) => lines.push(line), "debug");

async function start(listener: RequestListener, limits: Partial<ServerLimits> = {}): Promise<number> {
  lines.length = 0;
  const server = makeHttpServer(listener, { limits, clock: systemClock, logger });
  const { port, close } = await listenHere(server);
  onTestFinished(close);
  return port;
}

describe("a connection", () => {
  it("is answered one request after another, whether their bodies are read or not", async () => {
    const port = await start((request, response) => {
      if (request.url !== "/read") return response.end(request.url);
      return void buffer(request).then((body) => response.end(String(body.length)));
    });
    const connection = await openRaw(port);
    for (const [url, length] of [
      ["/read", 0],
      ["/read", 200_000],
      ["/unread", 50_000],
      ["/unread", 0],
    ] as const) {
      connection.write(makeHead(`POST ${url}`, [["Content-Length", length]]) + "x".repeat(length));
      expect((await connection.readAnswer()).body).toBe(url === "/read" ? String(length) : url);
    }
    connection.abort();
  });

  it.each([0, 1_000])(
    "is closed, and nothing more of it is handled, when it sends requests with bodies of %i bytes behind an unfinished answer",
    async (length) => {
      const begun: string[] = [];
      const port = await start((request, response) => {
        begun.push(request.url ?? "");
        if (request.url === "/probe") response.end();
      });
      const connection = await openRaw(port);
      connection.write(makeHead("POST /first", [["Content-Length", 0]]));
      await expect.poll(() => begun).toEqual(["/first"]);
      connection.write(
        (makeHead("POST /more", [["Content-Length", length]]) + "x".repeat(length)).repeat(100),
      );
      await connection.closed;
      expect(lines.join("")).toContain("pipelined_request");
      await sendRaw(port, makeHead("GET /probe", [["Connection", "close"]]));
      expect(begun).toEqual(["/first", "/probe"]);
    },
  );
});

it("a client that reads nothing of its answer is disconnected; not one that reads, or that waits for its answer", async () => {
  let unread: Socket | undefined;
  let finish: () => void = () => undefined;
  const endless = function* () {
    for (;;) yield Buffer.alloc(65_536);
  };
  const port = await start(
    (request, response) => {
      if (request.url === "/waits") finish = () => response.end("made");
      else Readable.from(endless()).pipe(response);
      if (request.url === "/unread") unread = request.socket;
    },
    { answerTimeout: 3_000 },
  );
  const waits = await openRaw(port);
  waits.write(makeHead("GET /waits", []));
  const reads = connect(port, "127.0.0.1");
  reads.write(makeHead("GET /reads", []));
  const ignores = await openRaw(port, { reads: false });
  ignores.write(makeHead("GET /unread", []));
  // Until then it reads; an end of its connection would throw.
  for await (const _ of reads) if (unread?.destroyed) break;
  expect(unread?.destroyed).toBe(true);
  expect(lines.join("")).toContain("answer_not_taken");
  finish();
  expect((await waits.readAnswer()).body).toBe("made");
  for (const connection of [waits, ignores]) connection.abort();
});

describe("connections", () => {
  const open = async (port: number) => {
    const connection = await openRaw(port);
    onTestFinished(() => connection.abort());
    return connection;
  };
  /** True if a request on this connection is answered. */
  const isServed = (connection: RawConnection) => {
    connection.write(makeHead("GET /", []));
    return connection.readAnswer().then(
      () => true,
      () => false,
    );
  };
  const answer: RequestListener = (_request, response) => response.end("here");

  it("beyond the limit are closed, and those within it are answered", async () => {
    const port = await start(answer, { connectionsMax: 2 });
    const [first, second] = [await open(port), await open(port)];
    expect(await isServed(first)).toBe(true);
    expect(await isServed(await open(port))).toBe(false);
    expect(lines.join("")).toContain("too_many_connections");
    expect(await Promise.all([first, second].map(isServed))).toEqual([true, true]);
    first.abort();
    await expect.poll(async () => isServed(await open(port))).toBe(true);
  });

  it("are closed after an idle time longer than that of load balancers", async () => {
    expect(SERVER_LIMITS.keepAliveTimeout).toBeGreaterThan(60_000);
    const port = await start(answer, { keepAliveTimeout: 100 });
    const connection = await openRaw(port);
    connection.write(makeHead("GET /", []));
    await connection.readAnswer();
    await connection.closed;
  });
});
