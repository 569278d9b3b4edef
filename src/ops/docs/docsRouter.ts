import { createHash } from "node:crypto";
import compression from "compression";
import { Router } from "express";
import type { RequestHandler } from "express";
import { renderDocs } from "./docsPage.ts";
import type { ApiDocument } from "./docsPage.ts";
import { PAGE_POLICY } from "../html/page.ts";

/**
 * `/openapi.json`, and `/docs` for people. Open to everybody: they say what there is and nothing of what is in it. Both are
 * made once, here, as anybody may ask for them as often as they like. The page
 * asks for the API at its own origin, so serve both together.
 */
export function makeDocsRouter(document: ApiDocument): Router {
  const router = Router();
  router.use(["/docs", "/openapi.json"], compression());
  router.get(
    "/openapi.json",
    serveText(JSON.stringify(document), { "Content-Type": "application/json; charset=utf-8" }),
  );
  router.get(
    "/docs",
    serveText(renderDocs(document), {
      "Content-Type": "text/html; charset=utf-8",
      "Content-Security-Policy": PAGE_POLICY,
    }),
  );
  return router;
}

function serveText(text: string, headers: Readonly<Record<string, string>>): RequestHandler {
  const bytes = Buffer.from(text);
  const etag = `"${createHash("sha256").update(bytes).digest("base64url")}"`;
  return (_request, response) => {
    response.set({ ...headers, "Cache-Control": "no-cache", ETag: etag }).send(bytes);
  };
}
