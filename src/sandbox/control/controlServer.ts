import type { IncomingMessage, ServerResponse } from "node:http";
import { z } from "zod";
import { tryParseJson } from "../../domain/parseJson.ts";
import { OrderMirrorError } from "../../domain/errors.ts";
import { isLocalRequest } from "../../runtime/http/loopback.ts";
import { isSameOrigin } from "../../runtime/http/sameOrigin.ts";
import type { Control, ControlDeps } from "./control.ts";
import { makeAccessControls } from "./controlAccess.ts";
import { makeDashboardControls } from "./controlDashboard.ts";
import { makeOrderControls } from "./controlOrders.ts";
import { makeWorldControls } from "./controlWorld.ts";
import { MARK } from "../world/mark.ts";
import { renderPage } from "../ui/page.ts";
import { readAsset, STYLE } from "../../html/style.ts";
import { matchPath } from "../../wire/endpoints.ts";
import { readText } from "../http/readBody.ts";
import { refused } from "../api/errors.ts";
import { RefusedRequestError } from "../../wire/refusal.ts";

const PREFIX = "/_sandbox";
const BODY_BYTES_MAX = 1_048_576;
/** The design of the mirror's pages, and what only this page has. */
const PAGE_STYLE = STYLE + readAsset("sandbox.css");
/** No scripts; forms only to this host. */
const CONTENT_SECURITY_POLICY =
  "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/**
 * Makes the handler of everything under /_sandbox: JSON for programs, forms and a page for people.
 *
 * A form's POST is answered with a redirect to the page, so that it works without JavaScript. Requests that a browser
 * marks as cross-site are refused: any page could otherwise control the sandbox.
 */
export function makeControlServer(
  deps: ControlDeps,
): (request: IncomingMessage, response: ServerResponse, url: URL) => Promise<void> {
  const controls = [
    ...makeWorldControls(deps),
    ...makeDashboardControls(deps),
    ...makeAccessControls(deps),
    ...makeOrderControls(deps),
  ];
  return async (request, response, url) => {
    const path = url.pathname.slice(PREFIX.length);
    let isForm = false;
    try {
      assertLocal(request);
      const text = await readText(request, BODY_BYTES_MAX);
      isForm = isFormBody(request, text);
      if (request.method === "GET" && (path === "" || path === "/")) {
        const html = await renderPage(deps, { notice: url.searchParams.get("notice") });
        send(response, 200, html, "text/html; charset=utf-8");
      } else if (request.method === "GET" && path === "/style.css") {
        send(response, 200, PAGE_STYLE, "text/css; charset=utf-8");
      } else if (request.method === "GET" && path === "/help") {
        sendJson(response, 200, listControls(controls));
      } else {
        assertSameSite(request);
        const result = await runControl(controls, { request, url, path, text, isForm });
        if (isForm) redirect(response, describeResult(result));
        else sendJson(response, 200, result);
      }
    } catch (error) {
      const { status, code, message } = explain(error);
      if (status === 500) deps.state.logger.error({ err: error }, "a control of the sandbox failed");
      if (isForm) redirect(response, message);
      else sendJson(response, status, { error: { code, message } });
    } finally {
      request.resume();
    }
  };
}

async function runControl(
  controls: readonly Control[],
  asked: { request: IncomingMessage; url: URL; path: string; text: string; isForm: boolean },
): Promise<unknown> {
  const { request, url, path, text, isForm } = asked;
  const found = controls.flatMap((each) => {
    const params = matchPath(each.path, path);
    return params ? [{ control: each, params }] : [];
  });
  const hit = found.find(({ control }) => control.method === request.method);
  if (!hit) {
    const code = found.length === 0 ? "not_found" : "method_not_allowed";
    throw refused(found.length === 0 ? 404 : 405, code, "See GET /_sandbox/help.");
  }
  const isRead = request.method === "GET";
  const given = isRead ? Object.fromEntries(url.searchParams) : parseGiven(text, isForm);
  return hit.control.run({ params: hit.params, given });
}

/** curl labels every body as a form; JSON is recognised by its brace. */
function isFormBody(request: IncomingMessage, text: string): boolean {
  const type = request.headers["content-type"] ?? "";
  return type.startsWith("application/x-www-form-urlencoded") && !text.trimStart().startsWith("{");
}

/** An empty form field counts as absent. */
function parseGiven(text: string, isForm: boolean): unknown {
  if (isForm) return Object.fromEntries([...new URLSearchParams(text)].filter(([, value]) => value !== ""));
  if (text.trim() === "") return {};
  const value = tryParseJson(text);
  if (value === undefined) throw refused(400, "invalid_json", "The body is not JSON.");
  return value;
}

/** There is no login: a proxy, or a foreign host name that resolves to this machine, would open it to everybody. */
function assertLocal(request: IncomingMessage): void {
  if (isLocalRequest(request)) return;
  throw refused(403, "not_local", "The control interface only answers direct requests from this machine.");
}

/** Browsers send `none` for an address typed by a person. */
function assertSameSite(request: IncomingMessage): void {
  if (request.headers["sec-fetch-site"] === "none" || isSameOrigin(request)) return;
  throw refused(403, "cross_site", "The control interface does not answer other sites.");
}

function explain(error: unknown): { status: number; code: string; message: string } {
  if (error instanceof RefusedRequestError) return error;
  if (error instanceof z.ZodError) {
    const issues = error.issues.map((issue) => `${issue.path.join(".") || "body"}: ${issue.message}`);
    return { status: 422, code: "invalid_request", message: issues.join("; ") };
  }
  if (error instanceof OrderMirrorError && error.retry === "never") {
    return { status: 422, code: "invalid_request", message: error.message };
  }
  return { status: 500, code: "internal_error", message: "The sandbox failed; see its log." };
}

function describeResult(result: unknown): string {
  const { scenario, reference, expect } = (result ?? {}) as Record<string, unknown>;
  if (typeof scenario === "string")
    return `${scenario}: order ${String(reference)}. Expected: ${String(expect)}`;
  return "Done.";
}

function listControls(controls: readonly Control[]) {
  return controls.map(({ method, path, summary }) => ({ method, path: PREFIX + path, summary }));
}

function redirect(response: ServerResponse, notice: string): void {
  response.writeHead(303, { ...MARK, Location: `${PREFIX}?notice=${encodeURIComponent(notice)}` });
  response.end();
}

/** Nanoseconds exceed JSON's safe integers, so bigints are sent as text. */
function sendJson(response: ServerResponse, status: number, value: unknown): void {
  const text = JSON.stringify(value ?? null, (_key, member: unknown) =>
    typeof member === "bigint" ? String(member) : member,
  );
  send(response, status, text, "application/json; charset=utf-8");
}

function send(response: ServerResponse, status: number, text: string, type: string): void {
  response.writeHead(status, {
    ...MARK,
    "Content-Type": type,
    "Content-Length": Buffer.byteLength(text),
    "Cache-Control": "no-store",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
  });
  response.end(text);
}
