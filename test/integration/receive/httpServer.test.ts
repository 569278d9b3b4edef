import { once } from "node:events";
import { IncomingMessage } from "node:http";
import type { RequestListener } from "node:http";
import { connect } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { buffer } from "node:stream/consumers";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { eventsFirst } from "../../../src/runtime/http/eventsFirst.ts";
import { makeHttpServer, SERVER_LIMITS } from "../../../src/runtime/http/httpServer.ts";
import type { ServerLimits } from "../../../src/runtime/http/httpServer.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { makeLogger } from "../../../src/runtime/telemetry/logger.ts";
import { makeHead, openRaw, sendRaw } from "../../support/http/rawHttp.ts";

const lines: string[] = [];
const logger = makeLogger({
  level: "debug",
  format: "json",
  service: "test",
  destination: { write: (line) => lines.push(line) },
});

/** Counts the heads of requests that Node has parsed since the call. */
function countHeads(): () => number {
  const parsed = vi.spyOn(
    IncomingMessage.prototype as unknown as { _addHeaderLines(): void },
    "_addHeaderLines",
  );
  onTestFinished(() => parsed.mockRestore());
  return () => parsed.mock.calls.length;
}

/** A request with a body of this many bytes; without one for 0. */
const makeRequest = (length: number) =>
  length === 0
    ? makeHead("GET /", [])
    : makeHead("POST /", [["Content-Length", length]]) + "x".repeat(length);

function openFrom(port: number, localAddress: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1", localAddress });
    socket.once("error", reject);
    socket.once("connect", () => resolve(socket));
    onTestFinished(() => void socket.destroy());
  });
}

async function start(listener: RequestListener, limits: Partial<ServerLimits> = {}): Promise<number> {
  lines.length = 0;
  const server = makeHttpServer(listener, { limits, clock: systemClock, logger });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return (server.address() as AddressInfo).port;
}

describe("requests in one packet", () => {
  it("are handled one after another, each with its complete body", async () => {
    let running = 0;
    const atOnce: number[] = [];
    const work: RequestListener = (request, response) => {
      running += 1;
      atOnce.push(running);
      void buffer(request).then((body) => {
        running -= 1;
        response.end(`${request.url} ${body.length}`);
      });
    };
    const port = await start(work);
    const connection = await openRaw(port);
    const lengths = [0, 10, 200_000, 0, 70_000, 1];
    const packet = lengths.flatMap((length, place) => [
      makeHead(`POST /${place}`, [["Content-Length", length]]),
      "x".repeat(length),
    ]);
    connection.write(packet.join(""));
    for (const [place, length] of lengths.entries()) {
      expect((await connection.readAnswer()).body).toBe(`/${place} ${length}`);
    }
    connection.write(makeHead("GET /again", []));
    expect((await connection.readAnswer()).body).toBe("/again 0");
    expect(Math.max(...atOnce)).toBe(1);
    connection.abort();
  });

  it("are answered even when nobody reads their bodies", async () => {
    const port = await start((request, response) => response.end(request.url));
    const connection = await openRaw(port);
    const one = (place: number) =>
      makeHead(`POST /${place}`, [["Content-Length", 50_000]]) + "x".repeat(50_000);
    connection.write(Array.from({ length: 20 }, (_, place) => one(place)).join(""));
    for (let place = 0; place < 20; place += 1) {
      expect((await connection.readAnswer()).body).toBe(`/${place}`);
    }
    connection.abort();
  });

  it("get no answer and then a reset when too many of them wait", async () => {
    let worked = 0;
    const port = await start(() => (worked += 1), { pipelinedKeepAliveTimeout: 500 });
    const connection = await openRaw(port);
    const startedMs = performance.now();
    connection.write(makeHead("GET /", []).repeat(4));
    await expect.poll(() => lines.join("")).toContain("too_many_pipelined_requests");
    connection.write(makeHead("GET /", []));
    await connection.closed;
    expect(performance.now() - startedMs).toBeGreaterThan(400);
    expect(worked).toBe(0);
  });

  it("get no further answer when too many of them follow one that is being answered", async () => {
    const begun: string[] = [];
    let finish: () => void = () => undefined;
    const port = await start((request, response) => {
      begun.push(request.url ?? "");
      if (request.url === "/first") finish = () => response.end("late");
      else response.end();
    });
    const connection = await openRaw(port);
    connection.write(makeHead("GET /first", []));
    await expect.poll(() => begun).toEqual(["/first"]);
    connection.write(makeHead("GET /more", []).repeat(3));
    await expect.poll(() => lines.join("")).toContain("too_many_pipelined_requests");
    finish();
    await sendRaw(port, makeHead("GET /probe", [["Connection", "close"]]));
    expect(begun).toEqual(["/first", "/probe"]);
    connection.abort();
  });

  it("of many connections are handled one after another, and those of others meanwhile", async () => {
    const begunMs: number[] = [];
    const port = await start((request, response) => {
      if (request.url === "/pipelined") begunMs.push(performance.now());
      response.end("here");
    });
    const connections = await Promise.all(Array.from({ length: 50 }, () => openRaw(port)));
    for (const connection of connections) connection.write(makeHead("GET /pipelined", []).repeat(2));
    await expect.poll(() => begunMs.length).toBeGreaterThan(1);
    expect((await sendRaw(port, makeHead("GET /other", []))).status).toBe(200);
    expect(begunMs.length).toBeLessThan(100);
    await expect.poll(() => begunMs.length).toBe(100);
    // 99 pauses of 10 ms; a timer may be early by less than 1 ms.
    expect(Math.max(...begunMs) - Math.min(...begunMs)).toBeGreaterThan(890);
    for (const connection of connections) connection.abort();
  });

  it.each([0, 100])(
    "with bodies of %i bytes are dropped unparsed beyond the allowed number",
    async (length) => {
      const parsed = countHeads();
      const port = await start(() => undefined);
      const connection = await openRaw(port);
      connection.write(makeRequest(length).repeat(500));
      await expect.poll(() => lines.join("")).toContain("too_many_pipelined_requests");
      expect(parsed()).toBeLessThan(10);
      connection.abort();
    },
  );

  it.each([
    [2, "no bodies", 0],
    [2, "bodies", 1_000],
    [4, "bodies", 1_000],
  ])("stop their connection from being read when there are %i with %s", async (count, _, length) => {
    let open: Socket | undefined;
    const port = await start((request, response) => {
      if (request.url === "/probe") response.end();
      else open = request.socket;
    });
    const [connection, other] = [await openRaw(port), await openRaw(port)];
    connection.write(makeRequest(length));
    await expect.poll(() => open).toBeDefined();
    const packet = makeRequest(length).repeat(count - 1);
    connection.write(packet);
    const expected = makeRequest(length).length + packet.length;
    await expect.poll(() => open?.bytesRead).toBe(expected);
    for (let further = 0; further < 10; further += 1) {
      connection.write(makeRequest(length));
      other.write(makeHead("GET /probe", []));
      await other.readAnswer();
    }
    expect(open?.bytesRead).toBe(expected);
    connection.abort();
    other.abort();
  });

  it.each([
    [20, 0],
    [2, 100],
  ])("%i at a time, on many connections of an address, hold up no other address", async (count, served) => {
    const begun: string[] = [];
    const port = await start((request, response) => {
      begun.push(request.url ?? "");
      if (request.url === "/first") response.end("accepted");
    });
    const flooding = await Promise.all(Array.from({ length: 100 }, () => openFrom(port, "127.0.0.2")));
    const genuine = await openFrom(port, "127.0.0.1");
    // Once all are accepted, they can be read in the same turn of the event loop.
    const all = [...flooding, genuine];
    const accepted = Promise.all(all.map((socket) => once(socket, "data")));
    for (const socket of all) socket.write(makeHead("GET /first", []));
    await accepted;
    begun.length = 0;
    for (const socket of flooding) socket.write(makeHead("GET /flood", []).repeat(count));
    genuine.write(makeHead("GET /genuine", []));
    await expect.poll(() => begun).toContain("/genuine");
    expect(begun.indexOf("/genuine")).toBeLessThan(10);
    // Each of them is handled in turn, except those on which too many wait.
    await expect.poll(() => begun.length).toBe(served + 1);
  });

  it("close their connection soon after the last answer, because nothing shows that it was read", async () => {
    const port = await start((_request, response) => response.end("here"), {
      keepAliveTimeout: 60_000,
      pipelinedKeepAliveTimeout: 100,
    });
    const [patient, hasty] = [await openRaw(port), await openRaw(port)];
    patient.write(makeHead("GET /", []));
    expect((await patient.readAnswer()).status).toBe(200);
    hasty.write(makeHead("GET /", []).repeat(2));
    await hasty.closed;
    patient.write(makeHead("GET /", []));
    expect((await patient.readAnswer()).status).toBe(200);
    patient.abort();
  });

  it("that have not started are dropped with their connection", async () => {
    const begun: string[] = [];
    let closed: () => void = () => undefined;
    const gone = new Promise<void>((resolve) => (closed = resolve));
    const port = await start((request, response) => {
      begun.push(request.url ?? "");
      response.once("close", closed);
      if (request.url === "/probe") response.end();
    });
    const connection = await openRaw(port);
    connection.write(makeHead("GET /1", []) + makeHead("GET /2", []));
    await expect.poll(() => begun).toEqual(["/1"]);
    connection.abort();
    // Nothing is read from this connection, so its end shows only when its answer is written or its time is up.
    await sendRaw(port, makeHead("GET /probe", []));
    expect(begun).toEqual(["/1", "/probe"]);
    await gone;
  });
});

describe("a client that does not read its answer", () => {
  const BIG = Buffer.alloc(64 * 1_048_576);

  it("is disconnected, and its other requests are dropped", async () => {
    let open: Socket | undefined;
    const port = await start(
      (request, response) => {
        open = request.socket;
        response.end(BIG);
      },
      { answerTimeout: 300 },
    );
    const connection = await openRaw(port, { reads: false });
    connection.write(makeHead("GET /", []));
    await expect.poll(() => open?.destroyed, { timeout: 60_000 }).toBe(true);
    expect(lines.join("")).toContain("answer_not_taken");
    connection.abort();
  });

  it("is kept while it reads, however slowly, and while the answer is still being made", async () => {
    let finish: () => void = () => undefined;
    const port = await start(
      (request, response) => {
        if (request.url === "/slow") finish = () => response.end("made");
        else response.end(BIG);
      },
      { answerTimeout: 3_000 },
    );
    const waiting = await openRaw(port);
    waiting.write(makeHead("GET /slow", []));
    const socket = connect(port, "127.0.0.1");
    socket.write(makeHead("GET /big", []));
    const step = BIG.length / 16;
    let taken = 0;
    for await (const chunk of socket as AsyncIterable<Buffer>) {
      taken += chunk.length;
      // Longer than the limit in total, and each pause much shorter, because a busy machine prolongs it.
      if (Math.floor(taken / step) !== Math.floor((taken - chunk.length) / step))
        await systemClock.sleep(200);
      if (taken > BIG.length) break;
    }
    expect(taken).toBeGreaterThan(BIG.length);
    finish();
    expect((await waiting.readAnswer()).body).toBe("made");
    waiting.abort();
  });
});

describe("connections", () => {
  /** True if a request on this connection is answered. */
  const isServed = (socket: Socket) =>
    new Promise<boolean>((resolve) => {
      socket.on("error", () => resolve(false)).once("close", () => resolve(false));
      socket.once("data", () => resolve(true));
      socket.write(makeHead("GET /", []));
    });
  const answer: RequestListener = (_request, response) => response.end("here");

  it("of one address are limited; other addresses are served, and a close frees a place", async () => {
    const port = await start(answer, { connectionsPerAddressMax: 3 });
    const held = await Promise.all([1, 2, 3].map(() => openFrom(port, "127.0.0.1")));
    expect(await Promise.all(held.map(isServed))).toEqual([true, true, true]);
    expect(await isServed(await openFrom(port, "127.0.0.1"))).toBe(false);
    const other = await openFrom(port, "127.0.0.2");
    expect(await isServed(other)).toBe(true);
    held[0]?.destroy();
    const servedAgain = async () => isServed(await openFrom(port, "127.0.0.1"));
    await expect.poll(servedAgain).toBe(true);
    for (const socket of [...held, other]) socket.destroy();
  });

  it("are limited in total", async () => {
    const port = await start(answer, { connectionsMax: 2 });
    const held = await Promise.all(["127.0.0.1", "127.0.0.2"].map((address) => openFrom(port, address)));
    expect(await Promise.all(held.map(isServed))).toEqual([true, true]);
    expect(await isServed(await openFrom(port, "127.0.0.3"))).toBe(false);
    for (const socket of held) socket.destroy();
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

it("readers wait while events are handled, and are refused after a while", async () => {
  const begun: string[] = [];
  const work: RequestListener = (request, response) => {
    begun.push(request.url ?? "");
    const until = performance.now() + 20;
    while (performance.now() < until);
    response.end("worked");
  };
  const slow = eventsFirst(work);
  const port = await start((request, response) =>
    request.url === "/webhooks" ? response.end("received") : slow(request, response),
  );
  const connections = await Promise.all(Array.from({ length: 200 }, () => openRaw(port)));
  const urgent = await openRaw(port);
  const event = makeHead("POST /webhooks", [["Content-Length", 0]]);
  // Once all are accepted, they can be read in the same turn.
  for (const connection of [...connections, urgent]) connection.write(event);
  for (const connection of [...connections, urgent]) await connection.readAnswer();
  for (const [place, connection] of connections.entries()) connection.write(makeHead(`GET /${place}`, []));
  urgent.write(event);
  expect((await urgent.readAnswer()).body).toBe("received");
  // Together they are four seconds of work.
  expect(begun.length).toBeLessThan(25);
  const statuses = await Promise.all(connections.map(async (each) => (await each.readAnswer()).status));
  expect(new Set(statuses)).toEqual(new Set([200, 503]));
  expect((await sendRaw(port, makeHead("GET /", []))).status).toBe(200);
  for (const connection of [...connections, urgent]) connection.abort();
});
