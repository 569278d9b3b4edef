import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { isTracingWanted } from "../../../src/runtime/telemetry/tracing.ts";

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318" };

it.each([
  [{}, false],
  [ENDPOINT, true],
  [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://127.0.0.1:4318/v1/traces" }, true],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: " " }, false],
  [{ ...ENDPOINT, OTEL_TRACES_EXPORTER: "otlp" }, true],
  [{ ...ENDPOINT, OTEL_TRACES_EXPORTER: "none" }, false],
  [{ ...ENDPOINT, OTEL_SDK_DISABLED: "TRUE" }, false],
  [{ ...ENDPOINT, OTEL_SDK_DISABLED: "false" }, true],
])("traces are wanted with %j: %s", (env, wanted) => {
  expect(isTracingWanted(env)).toBe(wanted);
});

it("loads no tracing package while it is off: only two imports need them, which run when it is on", () => {
  const source = path.resolve(import.meta.dirname, "../../../src");
  const importers = (pattern: RegExp) =>
    readdirSync(source, { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".ts") && pattern.test(readFileSync(path.join(source, file), "utf8")))
      .toSorted();
  const tracingOnly =
    '(?:[^"]*openTelemetry\\.ts|bullmq-otel|@opentelemetry/(?:sdk-trace-base|exporter-trace-otlp-http|context-async-hooks|core|resources))';
  expect(importers(new RegExp(`from "${tracingOnly}"`))).toEqual(["runtime/telemetry/openTelemetry.ts"]);
  expect(importers(new RegExp(`import\\("${tracingOnly}"\\)`))).toEqual([
    "queue/applyQueue.ts",
    "runtime/telemetry/tracing.ts",
  ]);
});
