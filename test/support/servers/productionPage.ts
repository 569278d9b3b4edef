import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { ROOT } from "../programs/program.ts";

const CADDY = "caddy";

/** The page's configuration of Caddy, as the installed release calls its options: Debian's 2.6 has former names. */
export function readCaddyfile(): string {
  const page = readProductionPage("caddyfile").join("\n");
  const version = execFileSync(CADDY, ["version"], { encoding: "utf8" });
  return /^v?2\.[0-6]\./.test(version) ? page.replace("request_buffers 2MiB", "buffer_requests") : page;
}

/** The blocks of docs/production.md in one language, as they stand. */
export function readProductionPage(language: string): string[] {
  const page = readFileSync(path.join(ROOT, "docs/production.md"), "utf8");
  return [...page.matchAll(/^```([^\n]+)\n([\s\S]*?)^```$/gm)].flatMap(([, tag, text = ""]) =>
    tag === language ? [text] : [],
  );
}
