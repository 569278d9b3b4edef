import { createRequire } from "node:module";
import path from "node:path";
import compression from "compression";
import { Router } from "express";
import { readAsset } from "../../html/style.ts";
import { writePolicy } from "../../html/policy.ts";

const VIEWER = path.dirname(createRequire(import.meta.url).resolve("swagger-ui-dist/package.json"));
const VIEWER_FILES = ["swagger-ui.css", "swagger-ui-bundle.js"];

/** Swagger UI sets styles of elements and has its icons in its style sheet; scripts come only from here. */
const POLICY = writePolicy({
  "style-src": "'self' 'unsafe-inline'",
  "img-src": "'self' data:",
  "form-action": "'none'",
});

/**
 * `/openapi.json`, and `/docs`, where Swagger UI shows it. Open to everybody: they say what there is and nothing of
 * what is in it. Our texts are made once, here, as anybody may ask for them as often as they like; for the same reason
 * the files of the viewer are sent as they are, and not compressed for each reader. The page asks for the API at its
 * own origin, so serve both together.
 */
export function makeDocsRouter(document: object): Router {
  // Strict, as the page names its files and the document next to it: below /docs/ they would be elsewhere.
  const router = Router({ strict: true });
  const page = { "Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": POLICY };
  for (const [address, text, headers] of [
    ["/openapi.json", JSON.stringify(document), { "Content-Type": "application/json; charset=utf-8" }],
    ["/docs", readAsset("docs.html"), page],
    ["/docs/docs.js", readAsset("docs.js"), { "Content-Type": "text/javascript; charset=utf-8" }],
    ["/docs/docs.css", readAsset("docs.css"), { "Content-Type": "text/css; charset=utf-8" }],
  ] as const) {
    const bytes = Buffer.from(text);
    router.get(address, compression(), (_request, response) => {
      response.set({ ...headers, "Cache-Control": "no-cache" }).send(bytes);
    });
  }
  for (const name of VIEWER_FILES) {
    router.get(`/docs/${name}`, (_request, response) => {
      response.sendFile(name, { root: VIEWER, maxAge: "1h" });
    });
  }
  return router;
}
