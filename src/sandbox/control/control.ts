/**
 * The control interface under /_sandbox, on Express: JSON for programs, forms and a page for people.
 *
 * A control has a method, a path, a schema for what it is given and a function; `controls.ts` has them all. A form's
 * POST is answered with a redirect to the page, so that it works without JavaScript. Requests that a browser marks as
 * cross-site are refused: any page could otherwise control the sandbox.
 */
import { Refusal, refused } from "../api/refusal.ts";
import express, { type Express, type NextFunction, type Request, type Response } from "express";
import { z } from "zod";
import { OrderMirrorError } from "../../domain/errors.ts";
import type { Mode } from "../../domain/source/orderSource.ts";
import { readAsset, STYLE } from "../../html/style.ts";
import { isLocalRequest, isSameOrigin } from "../../process/loopback.ts";
import type { Journal } from "../api/app.ts";
import type { TaskLoop } from "../taskLoop.ts";
import type { Traffic } from "../world/fleet.ts";
import { MARK, type SandboxState } from "../world/state.ts";
import { writeJson } from "../world/world.sql.ts";

export interface ControlDeps {
  readonly state: SandboxState;
  readonly loop: TaskLoop;
  readonly traffic: Traffic;
  readonly journal: Journal;
  /** The address of an order's page in a mirror of the organization `sandbox`; without it the page links to none. */
  readonly mirrorPageOf?: ((order: { mode: Mode; reference: string }) => string) | undefined;
}

export interface Control {
  readonly method: "get" | "post";
  /** Below /_sandbox. */
  readonly path: string;
  readonly summary: string;
  /** Called with the path's parameters and the unchecked body or query. */
  readonly run: (input: { params: Readonly<Record<string, string>>; given: unknown }) => unknown;
}

/** Defines an action; `schema` checks its input and refuses unknown fields. */
export function control<Schema extends z.ZodType>(
  [method, path, summary]: [Control["method"], string, string],
  schema: Schema,
  run: (given: z.infer<Schema>, params: Readonly<Record<string, string>>) => unknown,
): Control {
  return { method, path, summary, run: ({ params, given }) => run(schema.parse(given ?? {}), params) };
}

/** Fields shared by actions. Numbers and flags may also arrive as the text of a form. */
export const fields = {
  organization: z.string().max(100).default("sandbox"),
  mode: z.enum(["live", "test"]).default("live"),
  count: (max: number) => z.coerce.number().int().min(1).max(max),
  flag: z.union([z.boolean(), z.enum(["true", "false"]).transform((text) => text === "true")]),
  none: z.strictObject({}),
} as const;

const PREFIX = "/_sandbox";
const BODY_BYTES_MAX = 1_048_576;
const NOT_LOCAL = "The control interface only answers direct requests from this machine.";
/** The design of the mirror's pages, and what only this page has. */
const PAGE_STYLE = STYLE + readAsset("sandbox.css");
const HEADERS = {
  ...MARK,
  "Cache-Control": "no-store",
  // No scripts; forms only to this host; the style sheet has its arrows in itself.
  "Content-Security-Policy":
    "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
};

export function addControls(
  app: Express,
  controls: readonly Control[],
  options: { state: SandboxState; renderPage: (notice: string | null) => Promise<string> },
): void {
  const router = express.Router({ caseSensitive: true });
  app.use(PREFIX, router);
  router.use((request, response, next) => {
    response.set(HEADERS);
    // There is no login: a proxy, or a foreign host name that resolves to this machine, would open it to everybody.
    if (!isLocalRequest(request)) throw refused(403, "not_local", NOT_LOCAL);
    next();
  });
  router.get("/", async (request, response) => {
    const { notice } = request.query;
    response.type("html").send(await options.renderPage(typeof notice === "string" ? notice : null));
  });
  router.get("/style.css", (_request, response) => void response.type("css").send(PAGE_STYLE));
  const help = controls.map(({ method, path, summary }) => {
    return { method: method.toUpperCase(), path: PREFIX + path, summary };
  });
  router.get("/help", (_request, response) => void response.json(help));
  router.use(
    assertSameSite,
    express.urlencoded({ extended: false }),
    express.json({ type: () => true, limit: BODY_BYTES_MAX }),
  );
  for (const { method, path, run } of controls) {
    router[method](path, async (request: Request<Record<string, string>>, response: Response) => {
      const given = method === "get" ? { ...request.query } : readGiven(request);
      const result = await run({ params: request.params, given });
      if (isForm(request)) redirect(response, describeResult(result));
      else sendJson(response, 200, result);
    });
  }
  router.use(() => {
    throw refused(404, "not_found", "See GET /_sandbox/help.");
  });
  router.use((error: unknown, request: Request, response: Response, _next: NextFunction) => {
    const { status, code, message } = explain(error);
    if (status === 500) options.state.logger.error({ err: error }, "a control of the sandbox failed");
    if (isForm(request)) redirect(response, message);
    else sendJson(response, status, { error: { code, message } });
  });
}

const isForm = (request: Request) => request.is("urlencoded") === "urlencoded";

/** An empty form field counts as absent. */
function readGiven(request: Request): unknown {
  const { body } = request as { body?: unknown };
  if (!isForm(request)) return body;
  return Object.fromEntries(Object.entries(body ?? {}).filter(([, value]) => value !== ""));
}

/** Browsers send `none` for an address typed by a person. */
function assertSameSite(request: Request, _response: Response, next: NextFunction): void {
  if (request.headers["sec-fetch-site"] !== "none" && !isSameOrigin(request))
    throw refused(403, "cross_site", "The control interface does not answer other sites.");
  next();
}

/** The class of SQLSTATE. */
const DATA_EXCEPTION = "22";

function explain(error: unknown): { status: number; code: string; message: string } {
  if (error instanceof Refusal) return error;
  if (error instanceof z.ZodError) {
    const issues = error.issues.map((issue) => `${issue.path.join(".") || "body"}: ${issue.message}`);
    return { status: 422, code: "invalid_request", message: issues.join("; ") };
  }
  if (error instanceof OrderMirrorError && error.retry === "never")
    return { status: 422, code: "invalid_request", message: error.message };
  // Postgres refuses text with a NUL, or half a surrogate pair.
  if ((error as { code?: string }).code?.startsWith(DATA_EXCEPTION))
    return { status: 422, code: "invalid_request", message: "Each text must be valid." };
  // Express refuses a body that is too long or not JSON, and a path that it cannot decode.
  const { status = 500, message } = error as Error & { status?: number };
  return status < 500
    ? { status, code: "invalid_request", message }
    : { status: 500, code: "internal_error", message: "The sandbox failed; see its log." };
}

function describeResult(result: unknown): string {
  const { scenario, reference, expect } = (result ?? {}) as Record<string, unknown>;
  if (typeof scenario === "string")
    return `${scenario}: order ${String(reference)}. Expected: ${String(expect)}`;
  return "Done.";
}

function redirect(response: Response, notice: string): void {
  response.redirect(303, `${PREFIX}?notice=${encodeURIComponent(notice)}`);
}

function sendJson(response: Response, status: number, value: unknown): void {
  response
    .status(status)
    .type("json")
    .send(writeJson(value ?? null));
}
