import { readFileSync } from "node:fs";

// The same distance from src/process and from dist/process.
const manifest = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
  version: string;
};

/** Version of order-mirror, from its package.json. */
export const VERSION = manifest.version;
