import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, expect } from "vitest";
import { ConfigurationError } from "../../../src/domain/errors.ts";
import type { Config } from "../../../src/config/config.ts";
import { loadConfig } from "../../../src/config/environment.ts";
import { SETTINGS } from "../../../src/config/settings.ts";

export const VARIABLE_NAMES = Object.values(SETTINGS).map(({ variable }) => variable);

/** For files that variables name; removed after the file's tests. */
export function makeConfigFolder() {
  const folder = mkdtempSync(path.join(tmpdir(), "order-mirror-config-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  let files = 0;
  const write = (content: string): string => {
    files += 1;
    const file = path.join(folder, `file-${files}`);
    writeFileSync(file, content);
    return file;
  };
  return { folder, write };
}

export type Env = Record<string, string>;
export const load = (env: Env = {}, envFile: string | null = null): Config => loadConfig(env, envFile);

/** Words of the schema library, which mean nothing to the author of a configuration. */
const ITS_WORDS = /Invalid|expected|received|undefined|Unrecognized|Too (?:small|big)/;

/** The problems that loading reports, one per line, in our words; none when it loads. */
export function problemsOf(env: Env, envFile: string | null = null): string[] {
  try {
    load(env, envFile);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    expect(error.message).not.toMatch(ITS_WORDS);
    return error.message.split("\n");
  }
}

export const LIVE = {
  DELIVERY_BASE_URL: "https://api.example.com",
  DELIVERY_LIVE_API_KEY: "dos_live_key",
};
export const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
export const OTHER_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
export const TOKEN = "0123456789abcdef";
/** A source of the file of sources. */
export const LISTED = {
  sourceId: "acme-live",
  mode: "live",
  organization: "acme",
  baseUrl: "https://acme.example.com/",
  apiKey: "dos_live_acme",
};
