import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { startSandbox } from "../../../src/sandbox/startSandbox.ts";
import type { Sandbox } from "../../../src/sandbox/startSandbox.ts";
import { openContractMirror } from "../../support/contract/contractMirror.ts";
import type { ContractMirror } from "../../support/contract/contractMirror.ts";
import { runProgram, startProgram, stopPrograms } from "../../support/programs/program.ts";
import { orderBody } from "../../support/providers/testSandbox.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

let database: TestDatabase;
let sandbox: Sandbox;
let mirror: ContractMirror;
let target: Server;
let stranger: Server;
let folder: string;
let answer: Answer;
/** Reference and revision of each order that the target got a message of, and the requests that the stranger got. */
const got: string[] = [];
const leaked: string[] = [];

const accept: Answer = (_request, response) => void response.writeHead(204).end();
const portOf = (server: Server) => (server.address() as AddressInfo).port;
const open = async (server: Server) => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
};

beforeAll(async () => {
  database = await makeTestDatabase();
  sandbox = await startSandbox({ databaseUrl: database.url, port: 0, seed: 1, speed: 0, rateLimits: false });
  mirror = await openContractMirror(database, sandbox.url);
  folder = await mkdtemp(path.join(tmpdir(), "order-mirror-forward-"));
  await writeFile(path.join(folder, "token"), `${mirror.keys.test}\n`);
  target = await open(
    createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        const { data } = JSON.parse(Buffer.concat(chunks).toString()) as {
          data: { reference: string; revision: number };
        };
        got.push(`${data.reference} ${data.revision}`);
        answer(request, response);
      });
    }),
  );
  stranger = await open(
    createServer((request, response) => {
      leaked.push(`${request.method} ${request.url}`);
      response.end();
    }),
  );
});
afterEach(async () => {
  await stopPrograms();
  got.length = 0;
});
afterAll(async () => {
  for (const server of [target, stranger]) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
  await mirror.close();
  await sandbox.close();
  await database.drop();
  await rm(folder, { recursive: true });
});

const forwardTo = (to: string, ...more: string[]) => {
  const from = ["--url", mirror.url, "--token-file", path.join(folder, "token"), "--source", "test"];
  return ["listen", "--forward", to, ...from, ...more];
};
const address = (more = "") => `http://127.0.0.1:${portOf(target)}/hooks${more}`;
const state = (name: string) => ["--state", path.join(folder, name)];

/** Resolves with what the target gets of the new order. */
async function order(externalOrderId: string): Promise<string> {
  const response = await fetch(`${mirror.url}/v1/orders`, {
    method: "POST",
    headers: { authorization: `Bearer ${mirror.keys.test}`, "content-type": "application/json" },
    body: JSON.stringify(orderBody({ externalOrderId })),
  });
  expect(response.status).toBe(201);
  return `${((await response.json()) as { reference: string }).reference} 1`;
}

it("gets a change again that was refused when it ended, also the first one after `latest`", async () => {
  answer = (_request, response) => void response.writeHead(500).end();
  const first = startProgram(forwardTo(address(), ...state("refused")));
  await first.waitFor(/Following/);
  const refused = await order("refused-1");
  await first.waitFor(/500/);
  await first.waitFor(/sent again in/);
  expect((await first.stop("SIGINT")).code).toBe(130);
  const later = await order("refused-2");
  answer = accept;
  got.length = 0;
  const second = startProgram(forwardTo(address(), ...state("refused")));
  await second.waitFor(/order\.new.*\n.*order\.new/);
  expect(got).toEqual([refused, later]);
});

it("ends at once while the target does not answer, and repeats that change at the next start", async () => {
  answer = () => undefined;
  const first = startProgram(forwardTo(address(), ...state("hanging")));
  await first.waitFor(/Following/);
  const hanging = await order("hanging-1");
  await expect.poll(() => got).toEqual([hanging]);
  const stoppedAt = performance.now();
  expect((await first.stop("SIGINT")).code).toBe(130);
  expect(performance.now() - stoppedAt).toBeLessThan(8_000);
  expect(first.output()).not.toMatch(/order\.new|sent again/);
  answer = accept;
  const second = startProgram(forwardTo(address(), ...state("hanging")));
  await second.waitFor(/order\.new.*204/);
  expect(got).toEqual([hanging, hanging]);
});

it.each<[string, Answer, RegExp]>([
  ["closes", (request) => void request.socket.destroy(), /order\.new.*(ECONNRESET|socket)/i],
  [
    "redirects",
    (_request, response) =>
      void response.writeHead(307, { location: `http://127.0.0.1:${portOf(stranger)}/` }).end(),
    /order\.new.*307/,
  ],
  [
    "answers without an end",
    (_request, response) => {
      response.writeHead(503);
      const more = () => {
        while (!response.destroyed && response.write("x".repeat(100_000)));
      };
      response.on("drain", more);
      more();
    },
    /order\.new.*503/,
  ],
])("sends a change again to a target that %s, and to no other one", async (name, misbehave, shown) => {
  answer = misbehave;
  const program = startProgram(forwardTo(address(), ...state(name)));
  await program.waitFor(/Following/);
  const message = await order(`target ${name}`);
  await program.waitFor(shown);
  answer = accept;
  await program.waitFor(/order\.new.*204/);
  expect(new Set(got)).toEqual(new Set([message]));
  expect(leaked).toEqual([]);
});

it("shows no password and no token of its address, and nothing of the customer", async () => {
  answer = accept;
  const secret = address("?token=hidden-in-query").replace("//", "//user:hidden-password@");
  const program = startProgram(forwardTo(secret, "--fields", "all", ...state("shown")));
  await program.waitFor(/Following/);
  await order("shown-1");
  await program.waitFor(/order\.new.*204/);
  const { customer } = orderBody({}) as { customer: { firstName: string; phone: string } };
  for (const hidden of [
    "hidden-in-query",
    "hidden-password",
    mirror.keys.test,
    customer.firstName,
    customer.phone,
  ])
    expect(program.output()).not.toContain(hidden);
});

it("sends orders to another machine only encrypted", async () => {
  for (const other of [
    "http://203.0.113.7/hooks",
    "http://example.com",
    "http://localhost.example.com:8080/",
  ]) {
    const refused = await runProgram(forwardTo(other, ...state("other")));
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining("https://")]);
  }
});
