import { execFile } from "node:child_process";
import { accessSync, constants, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";

const RENDER_TIMEOUT_MS = 60_000;
/** Of the page's own clock: enough for its scripts to fetch and draw. */
const VIRTUAL_TIME_MS = 10_000;

/** Path of an installed Chromium or Chrome, or undefined. */
export function findChromium(): string | undefined {
  const folders = (process.env["PATH"] ?? "").split(path.delimiter);
  const names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
  const candidates = folders.flatMap((folder) => names.map((name) => path.join(folder, name)));
  return candidates.find((file) => {
    try {
      accessSync(file, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

if (findChromium() === undefined) {
  // oxlint-disable-next-line no-console -- whoever runs the tests must know what they did not prove
  console.warn("NOT RUN: the tests in a browser. There is no chromium on the PATH.");
}

/** The page after its scripts have run, and the output of its console. Only 127.0.0.1 resolves for it. */
export async function renderInChromium(chromium: string, url: string) {
  const profile = mkdtempSync(path.join(tmpdir(), "order-mirror-chromium-"));
  const flags = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--enable-logging=stderr",
    `--user-data-dir=${profile}`,
    `--virtual-time-budget=${VIRTUAL_TIME_MS}`,
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--dump-dom",
  ];
  try {
    const options = { timeout: RENDER_TIMEOUT_MS, maxBuffer: 32 * 1024 * 1024 };
    const { stdout, stderr } = await promisify(execFile)(chromium, [...flags, url], options);
    return { page: stdout, console: stderr.split("\n").filter((line) => line.includes(":CONSOLE")) };
  } finally {
    rmSync(profile, { recursive: true, force: true, maxRetries: 3 });
  }
}
