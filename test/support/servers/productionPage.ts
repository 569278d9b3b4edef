import { readFileSync } from "node:fs";
import path from "node:path";
import { ROOT } from "../programs/program.ts";

/** The blocks of docs/production.md in one language, as they stand. */
export function readProductionPage(language: string): string[] {
  const page = readFileSync(path.join(ROOT, "docs/production.md"), "utf8");
  return [...page.matchAll(/^```([^\n]+)\n([\s\S]*?)^```$/gm)].flatMap(([, tag, text = ""]) =>
    tag === language ? [text] : [],
  );
}
