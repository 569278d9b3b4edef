import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, beforeAll, expect, it, vi } from "vitest";
import { findFreePort } from "../../../src/runtime/postgres/freePort.ts";
import { startCollector } from "../../support/http/collector.ts";
import type { CollectedSpan } from "../../support/http/collector.ts";
import { startProgram, stopPrograms } from "../../support/programs/program.ts";

let dataDir: string;
let env: Record<string, string>;
let collector: Awaited<ReturnType<typeof startCollector>>;

beforeAll(async () => {
  dataDir = await mkdtemp(path.join(tmpdir(), "order-mirror-traces-"));
  const [port, sandboxPort] = [await findFreePort(), await findFreePort()];
  env = { DATA_DIR: dataDir, PORT: String(port), SANDBOX_PORT: String(sandboxPort) };
  collector = await startCollector();
});
afterEach(stopPrograms);
afterAll(async () => {
  await collector.close();
  await rm(dataDir, { recursive: true, force: true });
});

const SDK = new URL("../../support/programs/traceSdk.ts", import.meta.url).href;
const TIMEOUT_MS = 120_000;
const named = (name: string | RegExp) =>
  collector.spans.filter((span) => (typeof name === "string" ? span.name === name : name.test(span.name)));
const childOf = (parent: CollectedSpan, name: string | RegExp) =>
  named(name).find(
    ({ parentSpanId, traceId }) => parentSpanId === parent.spanId && traceId === parent.traceId,
  );

/** The spans from a webhook request to its application; undefined while one is missing. */
function findJourney() {
  for (const receive of named("receive")) {
    const enqueue = childOf(receive, "enqueue");
    const add = enqueue && childOf(enqueue, /^add /);
    const process = add && childOf(add, /^process /);
    const apply = process && childOf(process, "apply");
    if (apply) return { receive, apply };
  }
  return undefined;
}

it(
  "exports the path of an event as one trace: received, enqueued, processed, applied",
  async () => {
    const demo = startProgram(["demo"], {
      ...env,
      NODE_OPTIONS: `--import ts-blank-space/register --import ${SDK}`,
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_BSP_SCHEDULE_DELAY: "200",
    });
    await demo.waitFor(/webhook\s+(\S+)\s+.*applied/, TIMEOUT_MS);
    const { receive, apply } = await vi.waitUntil(findJourney, { timeout: TIMEOUT_MS, interval: 200 });
    expect(receive.parentSpanId ?? "").toBe("");
    expect(receive.attributes).toMatchObject({
      "http.route": "/webhooks/:source",
      "http.response.status_code": 200,
    });
    expect(apply.attributes["order_mirror.events"]).toBeGreaterThanOrEqual(1);
    expect([...collector.paths]).toEqual(["/v1/traces"]);
    const sent = collector.bodies.join("\n");
    expect(sent).not.toMatch(/DO-|evt_|\+44|whsec_|dos_(live|test)_/);
    expect(named(/getNextJob|Stalled/)).toEqual([]);
    const ending = await demo.stop("SIGINT");
    expect(ending.stderr).not.toMatch(/took too long/);
  },
  TIMEOUT_MS,
);
