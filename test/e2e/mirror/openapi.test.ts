import type { Browser } from "playwright-core";
import { afterAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { describeApi } from "../../../src/api/openapi/openapi.ts";
import { startSandbox } from "../../../src/sandbox/startSandbox.ts";
import { findBarriers, NO_BROWSER, openBrowser, openTab, overflow } from "../../support/pages/browser.ts";
import { openContractMirror } from "../../support/contract/contractMirror.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { runProgram } from "../../support/programs/program.ts";
import { orderBody, speakTo } from "../../support/providers/testSandbox.ts";

const browser: Browser | undefined = await openBrowser();
const api = describeApi();

const { database } = await openTestDatabase();

const options = { port: 0, seed: 1, speed: 0, rateLimits: false };
const sandbox = await startSandbox({ databaseUrl: database.url, ...options });
const mirror = await openContractMirror(database, speakTo(sandbox));
afterAll(async () => {
  await browser?.close();
  await mirror.close();
  await sandbox.close();
});

/** Headers of HTTP itself, and those that protect browsers: a client of the API needs none of them. */
const COMMON =
  /^(?:date|connection|keep-alive|transfer-encoding|content-(?:type|length|security-policy)|cache-control|vary|x-(?:content-type-options|dns-prefetch-control|download-options|frame-options|permitted-.*|xss-protection)|cross-origin-.*|origin-agent-cluster|referrer-policy|strict-transport-security)$/;

/** Sends a request and compares the answer with the document. */
async function ask(
  method: string,
  template: string,
  options: { reference?: string; query?: string; body?: unknown; token?: string } = {},
) {
  const { reference = "none", query = "", body, token = mirror.keys.test } = options;
  const path = template.replace("{reference}", reference);
  const response = await fetch(mirror.url + path + query, {
    method,
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const answer = api.paths[template]?.[method.toLowerCase()]?.responses[String(response.status)];
  const place = `${method} ${template} ${response.status}`;
  expect([place, answer !== undefined]).toEqual([place, true]);
  const described = new Set(Object.keys(answer?.headers ?? {}).map((name) => name.toLowerCase()));
  const undescribed = [...response.headers.keys()].filter(
    (name) => !COMMON.test(name) && !described.has(name),
  );
  expect([place, undescribed]).toEqual([place, []]);
  const [type = ""] = (response.headers.get("content-type") ?? "").split(";");
  expect([place, Object.keys(answer?.content ?? {})]).toEqual([place, [type]]);
  const schema = answer?.content?.[type]?.schema ?? {};
  if (!("$ref" in schema)) return { status: response.status, value: await response.text() };
  const value: unknown = await response.json();
  const mistakes = makeCheck(schema).safeParse(value).error?.issues;
  expect([place, mistakes]).toEqual([place, undefined]);
  return { status: response.status, value: value as Record<string, unknown> };
}

/** Parses the document's JSON Schema with zod, instead of using the object that the document was generated from. */
function makeCheck(schema: Record<string, unknown>): z.ZodType {
  const whole = JSON.stringify({ ...schema, $defs: api.components.schemas });
  const local = whole.replaceAll("#/components/schemas/", "#/$defs/");
  return z.fromJSONSchema(JSON.parse(local) as z.core.JSONSchema.JSONSchema);
}

describe("the document matches the answers", () => {
  it("to reads, feed and exports", async () => {
    await ask("POST", "/v1/orders", { body: orderBody({ externalOrderId: "docs-1" }) });
    for (const path of [
      "/v1/orders",
      "/v1/orders/{reference}",
      "/v1/branches",
      "/v1/orders.csv",
      "/v1/orders.ndjson",
    ])
      expect((await ask("GET", path, { reference: "docs-1" })).status).toBe(200);
    const changes = await ask("GET", "/v1/changes");
    expect(changes).toMatchObject({ status: 200, value: { data: [{ cause: { via: "write" } }] } });
  });

  it("to writes", async () => {
    const body = orderBody({ externalOrderId: "docs-2" });
    const made = await ask("POST", "/v1/orders", { body });
    const reference = String((made.value as { reference: string }).reference);
    const statuses = [made.status];
    const address = { street: "Overtoom 12", city: "Amsterdam", postcode: "1054 HN" };
    for (const [method, template, more] of [
      ["POST", "/v1/orders", { body }],
      ["POST", "/v1/orders/quote", { body }],
      ["PATCH", "/v1/orders/{reference}", { reference, body: {} }],
      ["POST", "/v1/test/orders/{reference}/advance", { reference }],
      ["POST", "/v1/orders/{reference}/cancel", { reference }],
      ["POST", "/v1/orders/{reference}/cancel", { reference }],
      ["POST", "/v1/addresses/validate", { body: address }],
    ] as const)
      statuses.push((await ask(method, template, more)).status);
    expect(statuses).toEqual([201, 409, 200, 200, 200, 200, 422, 200]);
  });

  it("to refused requests", async () => {
    const reads = Object.keys(api.paths).filter((path) => api.paths[path]?.["get"] !== undefined);
    for (const path of reads) expect((await ask("GET", path, { token: "nobody" })).status).toBe(401);
    expect((await ask("GET", "/v1/orders", { query: "?limit=0" })).status).toBe(422);
    expect((await ask("GET", "/v1/orders/{reference}")).status).toBe(404);
    expect((await ask("GET", "/v1/orders/{reference}", { reference: "%zz" })).status).toBe(404);
    expect((await ask("GET", "/v1/orders", { query: "?revisions=1" })).value).toHaveProperty("revisions");
    expect((await ask("GET", "/v1/changes", { query: "?after=0.7" })).status).toBeGreaterThan(400);
  });
});

it("serves the document as it is printed", async () => {
  const served: unknown = await (await fetch(`${mirror.url}/openapi.json`)).json();
  const { code, stdout } = await runProgram(["openapi"]);
  expect([code, JSON.parse(stdout)]).toEqual([0, served]);
  expect(served).toEqual(api);
});

describe.skipIf(browser === undefined)(
  `/docs (${browser === undefined ? NO_BROWSER : "in Chromium"})`,
  () => {
    it("shows every endpoint to everybody, with scripts and requests of this origin alone", async () => {
      const look = await openTab(browser as Browser, mirror.url);
      const response = await look.page.goto("/docs");
      const policy = response?.headers()["content-security-policy"] ?? "";
      expect(policy).toContain("default-src 'none'");
      expect(policy).toContain("script-src 'self';");
      expect(policy).not.toMatch(/https?:|unsafe-eval/);
      await look.page.locator(".opblock").first().waitFor();
      const text = await look.page.locator("main").innerText();
      for (const path of Object.keys({ ...api.paths, ...api.webhooks })) {
        expect(text.replaceAll("\u200b", "")).toContain(path);
      }
      expect(await findBarriers(look.page)).toEqual([]);
      await look.page.setViewportSize({ width: 390, height: 800 });
      expect(await overflow(look.page)).toBe(0);
      expect(look.troubles).toEqual([]);
      await look.close();
    });

    it("sends a read that a person fills in, keeps the token nowhere, and offers no write", async () => {
      const hostile = "try-<img src=x onerror=document.title='taken'>";
      const body = orderBody({ externalOrderId: hostile });
      expect((await ask("POST", "/v1/orders", { body })).status).toBe(201);
      const look = await openTab(browser as Browser, mirror.url);
      const { page } = look;
      await page.goto("/docs");
      await page.locator(".btn.authorize").click();
      await page.locator(".auth-container input").fill(mirror.keys.test);
      await page.locator(".auth-btn-wrapper .authorize").click();
      await page.locator(".btn-done").click();
      const read = page.locator("#operations-Orders-getOrder");
      await read.locator(".opblock-summary-control").click();
      await read.getByRole("button", { name: "Try it out" }).click();
      await read.getByPlaceholder("reference").fill(hostile);
      const asked = page.waitForRequest("**/v1/orders/**");
      await read.getByRole("button", { name: "Execute" }).click();
      const request = await asked;
      expect(decodeURIComponent(request.url())).toBe(`${mirror.url}/v1/orders/${hostile}`);
      expect(await request.headerValue("authorization")).toBe(`Bearer ${mirror.keys.test}`);
      await read.locator(".live-responses-table").getByText("externalOrderId").first().waitFor();
      expect(await page.title()).not.toContain("taken");
      expect(
        await page.evaluate<string>("JSON.stringify([{ ...localStorage }, { ...sessionStorage }])"),
      ).toBe("[{},{}]");
      const write = page.locator("#operations-Writes-createOrder");
      await write.locator(".opblock-summary-control").click();
      await write.getByText("Responses").first().waitFor();
      expect(await write.getByRole("button", { name: "Try it out" }).count()).toBe(0);
      expect(look.troubles).toEqual([]);
      await look.close();
    });
  },
);
