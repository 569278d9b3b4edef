import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { Webhook } from "standardwebhooks";
import { afterAll, afterEach, expect, it, vi } from "vitest";
import { runProgram, startProgram, stopPrograms } from "../../support/programs/program.ts";
import { listenHere } from "../../support/http/serve.ts";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

interface Message {
  readonly type: string;
  readonly source: string;
  readonly data: { readonly reference: string; readonly position: string };
}

const received: { readonly id: string; readonly message: Message }[] = [];
const unverified: unknown[] = [];
let status = 204;
/** How many messages were answered with each status. */
const answered = new Map<number, number>();
/** For a busy machine, on which each command takes ten seconds to start. */
const PATIENCE = { timeout: 180_000, interval: 100 };

const dataDir = await mkdtemp(path.join(tmpdir(), "order-mirror-outgoing-"));
const receiver = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    try {
      const text = Buffer.concat(chunks).toString("utf8");
      const headers = request.headers as Record<string, string>;
      const message = new Webhook(SECRET).verify(text, headers) as Message;
      received.push({ id: String(headers["webhook-id"]), message });
    } catch (error) {
      unverified.push(error);
    }
    response.writeHead(status).end();
    answered.set(status, (answered.get(status) ?? 0) + 1);
  });
});
const { url, close } = await listenHere(receiver);
const file = path.join(dataDir, "outgoing.json");
await writeFile(file, JSON.stringify([{ name: "erp", url, secret: SECRET, sources: ["live", "test"] }]));
const env = {
  DATA_DIR: dataDir,
  PORT: "0",
  SANDBOX_PORT: "0",
  POLL_INTERVAL_SECONDS: "3",
  OUTGOING_WEBHOOKS_FILE: file,
};
afterEach(stopPrograms);
afterAll(async () => {
  await close();
  await rm(dataDir, { recursive: true, force: true });
});

const command = async (...args: string[]) => {
  const { code, stdout, stderr } = await runProgram(["outgoing", ...args, "--json"], env);
  expect(stderr).toBe("");
  expect(code).toBe(0);
  return JSON.parse(stdout) as unknown;
};
const endpoint = async () =>
  ((await command("list")) as { endpointId: string; pending: number; dead: number }[])[0]!;

it("the demo notifies an endpoint of its changes; dead and past messages can be sent again by hand", async () => {
  const demo = startProgram(["demo"], env);
  const [, web] = await demo.waitFor(/Read API\s+(http:\S+)\/v1\/orders/);
  await vi.waitFor(() => expect(received.length).toBeGreaterThan(5), PATIENCE);
  expect(unverified).toEqual([]);

  const queues = await (await fetch(`${web}/ops/queues/api/queues`)).text();
  expect(queues).toContain('"name":"apply"');
  const metrics = await (await fetch(`${web}/metrics`)).text();
  expect(metrics).toMatch(/order_mirror_outgoing_pending\{endpoint="erp"\} \d+/);

  status = 410;
  await vi.waitFor(() => expect(answered.get(410)).toBeGreaterThan(0), PATIENCE);
  await vi.waitFor(async () => expect((await endpoint()).dead).toBeGreaterThan(0), PATIENCE);
  status = 204;
  await vi.waitFor(async () => {
    await command("retry", "erp", "--yes");
    expect(await endpoint()).toMatchObject({ dead: 0 });
  }, PATIENCE);

  const first = received[0]!;
  const again = () => received.filter(({ id }) => id === first.id).length;
  const before = again();
  const past = ["replay", "erp", "--yes"];
  expect(await command(...past, "--since", "PT1H")).toMatchObject({ replayed: true });
  await vi.waitFor(() => expect(again()).toBeGreaterThan(before), PATIENCE);
  expect(unverified).toEqual([]);

  const unknown = await runProgram(["outgoing", "retry", "none", "--yes"], env);
  expect(unknown.code).toBe(2);
  expect(unknown.stderr).toContain("`order-mirror outgoing list` shows the known endpoints");
  const ending = await demo.stop("SIGINT");
  expect(ending.signal).toBe("SIGINT");
  expect(ending.stderr).not.toMatch(/took too long/);
});
