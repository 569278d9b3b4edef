import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import os from "node:os";
import path from "node:path";
import { afterEach, expect, it, onTestFinished } from "vitest";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { at, makeSnapshot, readAt } from "../../support/mirror/orders.ts";
import { startProgram, stopPrograms } from "../../support/programs/program.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import { WEBHOOK_SECRET } from "../../support/signing/webhooks.ts";

const WAIT = { timeout: 60_000, interval: 50 };

afterEach(stopPrograms);

it("adds, changes, pauses and removes endpoints at SIGHUP, and an invalid list changes nothing", async () => {
  const database = await makeTestDatabase();
  onTestFinished(() => database.drop());
  const received: string[] = [];
  const receiver = createServer((request, response) => {
    let text = "";
    request.on("data", (part: Buffer) => (text += part.toString()));
    request.on("end", () => {
      const { data } = JSON.parse(text) as { data: { reference: string } };
      received.push(`${request.url} ${data.reference}`);
      response.writeHead(204).end();
    });
  });
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void receiver.close());
  const address = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
  const folder = await mkdtemp(path.join(os.tmpdir(), "order-mirror-endpoints-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const file = path.join(folder, "outgoing.json");
  const endpoint = (name: string, place: string, more: object = {}) => ({
    name,
    url: `${address}/${place}`,
    secret: WEBHOOK_SECRET,
    sources: ["live"],
    ...more,
  });
  const write = (...endpoints: object[]) => writeFile(file, JSON.stringify(endpoints));
  await write(endpoint("erp", "erp"));
  const program = startProgram(["worker"], {
    DATABASE_URL: database.url,
    DELIVERY_BASE_URL: "http://127.0.0.1:9",
    DELIVERY_LIVE_WEBHOOK_SECRETS: WEBHOOK_SECRET,
    OUTGOING_WEBHOOKS_FILE: file,
    LOG_FORMAT: "json",
  });
  await program.waitFor(/worker is ready/);
  const states = async () => {
    const { rows } = await database.pool.query<{ name: string; listed: string; known: boolean }>(
      `select endpoint_id as name, listed, exists (select from mirror.outgoing_cursors c
         where c.endpoint_id = e.endpoint_id) as known
       from mirror.outgoing_endpoints e order by 1`,
    );
    return rows.map(({ name, listed, known }) => `${name} ${listed}${known ? "" : ", new"}`);
  };
  const see = async (reference: string) => {
    const snapshots = [makeSnapshot({ reference, updatedAt: at(1) })];
    const time = readAt(0n, 0);
    await makeLiveApply(database.pool).applyReads({ sourceId: "live", via: "poll", snapshots, time });
  };
  const reload = () => program.child.kill("SIGHUP");

  await expect.poll(states, WAIT).toEqual(["erp active"]);
  await see("A");
  await expect.poll(() => received, WAIT).toEqual(["/erp A"]);

  await write(endpoint("erp", "other"), endpoint("bi", "bi"));
  reload();
  await program.waitFor(
    /"added":\["bi"\],"changed":\["erp"\],"removed":\[\],"msg":"read the endpoints again"/,
  );
  await expect.poll(states, WAIT).toEqual(["bi active", "erp active"]);
  await see("B");
  await expect.poll(() => received.toSorted(), WAIT).toEqual(["/bi B", "/erp A", "/other B"]);

  await write(endpoint("erp", "lost", { rate: 0 }));
  reload();
  await program.waitFor(/the configuration was not read again; the earlier one stays in force/);
  await see("C");
  await expect
    .poll(() => received.toSorted(), WAIT)
    .toEqual(["/bi B", "/bi C", "/erp A", "/other B", "/other C"]);

  received.length = 0;
  await write(endpoint("erp", "other", { paused: true }), endpoint("crm", "crm"));
  reload();
  await expect.poll(states, WAIT).toEqual(["crm active", "erp paused"]);
  await see("D");
  await expect.poll(() => received, WAIT).toEqual(["/crm D"]);
  await write(endpoint("erp", "other"), endpoint("crm", "crm"));
  reload();
  await expect.poll(() => received, WAIT).toEqual(["/crm D", "/other D"]);
  expect(await states()).toEqual(["crm active", "erp active"]);
});
