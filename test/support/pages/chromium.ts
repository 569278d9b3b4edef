import { accessSync, constants } from "node:fs";
import path from "node:path";

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
