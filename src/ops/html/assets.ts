import { createHash } from "node:crypto";
import { Router } from "express";
import { readAsset, readPackageFile, STYLE } from "../../html/style.ts";

export interface Asset {
  readonly path: string;
  readonly type: string;
  readonly body: string;
}

/** The address contains a hash of the file, so browsers may cache it forever and never use an old version. */
function makeAsset(name: string, type: "text/css" | "text/javascript", body: string): Asset {
  const version = createHash("sha256").update(body).digest("hex").slice(0, 12);
  return { path: `/ops/assets/${version}-${name}`, type, body };
}

export const STYLE_ASSET = makeAsset("ops.css", "text/css", STYLE);
export const LIVE_SCRIPT_ASSET = makeAsset("live.js", "text/javascript", readAsset("live.js"));
/** uPlot, and what draws the tables of a page with it. */
export const CHART_ASSETS: readonly Asset[] = [
  makeAsset("uplot.css", "text/css", readPackageFile("uplot/dist/uPlot.min.css")),
  makeAsset("uplot.js", "text/javascript", readPackageFile("uplot/dist/uPlot.iife.min.js")),
  makeAsset("charts.js", "text/javascript", readAsset("charts.js")),
];

/** Styles and scripts of our pages: public, because the login page needs them and they contain nothing secret. */
export function makeAssetRouter(): Router {
  const router = Router();
  for (const { path, type, body } of [STYLE_ASSET, LIVE_SCRIPT_ASSET, ...CHART_ASSETS]) {
    router.get(path, (_request, response) => {
      response
        .set({ "Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff" })
        .type(type)
        .send(body);
    });
  }
  return router;
}
