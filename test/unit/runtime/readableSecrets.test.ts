import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { listReadableSecrets } from "../../../src/runtime/config/environment.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), "order-mirror-files-"));
  chmodSync(folder, 0o755);
});
afterEach(() => rmSync(folder, { recursive: true }));

function write(name: string, text: string, mode: number): string {
  const file = path.join(folder, name);
  writeFileSync(file, text);
  chmodSync(file, mode);
  return file;
}

it("lists exactly the files with secrets that every account can read", () => {
  const password = write("password", "the operator's", 0o644);
  const token = write("token", "a-token-of-the-metrics", 0o640);
  const sources = write("sources.json", "[]", 0o604);
  const env = { OPS_PASSWORD_FILE: password, METRICS_TOKEN_FILE: token, SOURCES_FILE: sources };
  const secret = write(".env", "OPS_VIEWER_PASSWORD=the viewer's\n", 0o644);
  expect(listReadableSecrets(env, secret)).toEqual([password, sources, secret]);
  expect(listReadableSecrets({}, write("plain.env", "PORT=3000\nOPS_PASSWORD=\n", 0o644))).toEqual([]);
  chmodSync(secret, 0o600);
  expect(listReadableSecrets({}, secret)).toEqual([]);
  expect(listReadableSecrets({}, path.join(folder, "missing"))).toEqual([]);
});

it("ignores files below a folder that only this account may enter", () => {
  mkdirSync(path.join(folder, "secrets"));
  const env = { OPS_PASSWORD_FILE: write("secrets/password", "a word", 0o644) };
  expect(listReadableSecrets(env, null)).toEqual([env.OPS_PASSWORD_FILE]);
  chmodSync(folder, 0o700);
  expect(listReadableSecrets(env, null)).toEqual([]);
});

it("ignores files that Kubernetes mounts", () => {
  mkdirSync(path.join(folder, "..data"));
  expect(listReadableSecrets({ OPS_PASSWORD_FILE: write("password", "a word", 0o644) }, null)).toEqual([]);
});
