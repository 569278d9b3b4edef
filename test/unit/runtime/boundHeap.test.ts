import { execFile } from "node:child_process";
import path from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const ROOT = path.resolve(import.meta.dirname, "../../..");

/** Keeps some 60 MB alive while short-lived objects are created. Prints the largest heap size. */
const CHURN = `
  const alive = Array.from({ length: 300_000 }, (_, place) => ({ place, text: "x" + place }));
  const waiting = [];
  let peak = 0;
  for (let place = 0; place < 2_000_000; place += 1) {
    waiting.push({ place, list: [place, place], text: "y" + place });
    if (waiting.length > 200_000) waiting.splice(0, 100_000);
    if (place % 20_000 === 0) peak = Math.max(peak, process.memoryUsage().heapTotal);
  }
  process.stdout.write(String(alive.length > 0 ? peak : 0));`;

async function measurePeak(before: string): Promise<number> {
  const args = ["--import", "ts-blank-space/register", "--input-type=module", "--eval", before + CHURN];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: ROOT, env: {} });
  return Number(stdout);
}

it("a process with a bounded heap keeps little garbage, without a command-line option", async () => {
  const module = path.join(ROOT, "src/runtime/lifecycle/boundHeap.ts");
  const free = await measurePeak("");
  const bounded = await measurePeak(
    `const { boundHeap } = await import(${JSON.stringify(module)}); boundHeap();`,
  );
  expect(bounded).toBeGreaterThan(0);
  expect(bounded / free).toBeLessThan(0.8);
});
