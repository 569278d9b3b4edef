import { Router } from "express";
import { renderDocs } from "./docsPage.ts";
import type { ApiDocument } from "./docsPage.ts";
import { PAGE_POLICY } from "../html/page.ts";

/**
 * `/openapi.json`, and `/docs` for people. Open to everybody: they say what there is and nothing of what is in it. The
 * page is made once, here, and runs no script.
 */
export function makeDocsRouter(document: ApiDocument): Router {
  const router = Router();
  const page = renderDocs(document);
  router.get("/openapi.json", (_request, response) => {
    response.set("Cache-Control", "no-cache").json(document);
  });
  router.get("/docs", (_request, response) => {
    response
      .set({ "Content-Security-Policy": PAGE_POLICY, "Cache-Control": "no-cache" })
      .type("html")
      .send(page);
  });
  return router;
}
