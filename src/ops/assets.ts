import { createHash } from "node:crypto";
import { Router } from "express";
import { STYLE } from "./style.ts";

interface Asset {
  readonly path: string;
  readonly type: string;
  readonly body: string;
}

/** The address holds what is in the file, so browsers may keep it for ever and never see an old one. */
function makeAsset(name: string, type: string, body: string): Asset {
  const version = createHash("sha256").update(body).digest("hex").slice(0, 12);
  return { path: `/ops/assets/${version}-${name}`, type, body };
}

export const STYLE_ASSET = makeAsset("ops.css", "text/css", STYLE);

/** The style of our pages: for everybody, as the login page needs it and it tells nothing. */
export function makeAssetRouter(): Router {
  const router = Router();
  router.get(STYLE_ASSET.path, (_request, response) => {
    response
      .set({ "Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff" })
      .type(STYLE_ASSET.type)
      .send(STYLE_ASSET.body);
  });
  return router;
}
