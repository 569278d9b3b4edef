import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { createConfig, lintFromString } from "@redocly/openapi-core";
import openapiTypescript, { type OpenAPI3 } from "openapi-typescript";
import { expect, it, onTestFinished } from "vitest";
import { describeApi } from "../../../src/api/openapi/openapi.ts";

const ROOT = path.resolve(import.meta.dirname, "../../..");
const TSC = path.join(ROOT, "node_modules/typescript/bin/tsc");
const api = describeApi();
const operations = [api.paths, api.webhooks].flatMap((paths) =>
  Object.values(paths).flatMap((methods) => Object.values(methods)),
);

it("passes the linter", async () => {
  const config = await createConfig({ extends: ["recommended-strict"] });
  const lint = async (document: object) => {
    const source = JSON.stringify(document);
    const problems = await lintFromString({ source, absoluteRef: "openapi.json", config });
    return problems.map(({ ruleId, message, location }) => [ruleId, message, location[0]?.pointer]);
  };
  expect(await lint({ ...api, paths: { "/x": { get: {} } } })).not.toEqual([]);
  expect(await lint(api)).toEqual([]);
});

it("documents the answers to wrong tokens, invalid requests and internal errors", () => {
  for (const { operationId, responses, security } of operations) {
    const needed = security === undefined ? ["401", "422", "500"] : [];
    expect([operationId, Object.keys(responses)]).toEqual([operationId, expect.arrayContaining(needed)]);
  }
});

/** A program that uses the generated types: each line compiles, or is expected not to. */
const PROGRAM = `
  import type { components, operations, paths, webhooks } from "./api";
  type Body<Id extends keyof operations> = operations[Id]["responses"] extends {
    200: { content: { "application/json": infer Answer } };
  } ? Answer : never;
  export async function list(query: NonNullable<operations["listOrders"]["parameters"]["query"]>) {
    const text = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)]));
    const answer = await fetch("/v1/orders?" + text.toString());
    return (await answer.json()) as Body<"listOrders">;
  }
  export const references = list({ status: "created", limit: 10 }).then(({ data }) => data.map((each) => each.reference));
  export const revision = (order: Body<"listOrders">): number | undefined => order.revisions?.[0]?.revision;
  export const change = (page: Body<"listChanges">): components["schemas"]["Change"] | undefined => page.data[0];
  export const streamed: paths["/v1/changes/stream"]["get"]["responses"][200]["content"]["text/event-stream"] = "id: 1";
  type Sent = webhooks["order.new"]["post"]["requestBody"]["content"]["application/json"];
  export const name = ({ type, data }: Sent): string => type + data.reference;
  // @ts-expect-error a parameter that does not exist
  void list({ colour: "red" });
  // @ts-expect-error a reference is text
  export const wrong = (order: components["schemas"]["Order"]): number => order.reference;
`;

it("generates types that a strict compiler accepts", async () => {
  const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-api-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  await writeFile(path.join(folder, "api.d.ts"), await openapiTypescript(api as unknown as OpenAPI3));
  await writeFile(path.join(folder, "program.ts"), PROGRAM);
  const options = ["--strict", "--noEmit", "--module", "esnext", "--moduleResolution", "bundler"];
  const libraries = ["--target", "es2023", "--lib", "es2023,dom", "--types", ""];
  const compiled = promisify(execFile)(process.execPath, [TSC, ...options, ...libraries, "program.ts"], {
    cwd: folder,
  });
  await expect(compiled.catch((error: { stdout: string }) => error.stdout)).resolves.toMatchObject({
    stdout: "",
  });
});
