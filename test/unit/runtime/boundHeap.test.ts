import { execFile } from "node:child_process";
import path from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const ROOT = path.resolve(import.meta.dirname, "../../..");

/**
 * Keeps some 60 MB alive while short-lived objects are created. Prints the size that nine of ten samples of the heap do not
 * exceed: the largest one depends on when the collector's threads get a processor.
 */
const CHURN = `
  const alive = Array.from({ length: 300_000 }, (_, place) => ({ place, text: "x" + place }));
  const waiting = [];
  const sizes = [];
  for (let place = 0; place < 4_000_000; place += 1) {
    waiting.push({ place, list: [place, place], text: "y" + place });
    if (waiting.length > 200_000) waiting.splice(0, 100_000);
    if (place % 20_000 === 0) sizes.push(process.memoryUsage().heapUsed);
  }
  sizes.sort((one, other) => one - other);
  process.stdout.write(String(alive.length > 0 ? sizes[Math.floor(sizes.length * 0.9)] : 0));`;

async function measureHeap(before: string): Promise<number> {
  const args = ["--import", "ts-blank-space/register", "--input-type=module", "--eval", before + CHURN];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: ROOT, env: {} });
  return Number(stdout);
}

// In the long form: it takes ten seconds of a whole processor.
it.runIf(process.env["TEST_LONG"] === "1")(
  "a process with a bounded heap keeps little garbage, without a command-line option",
  async () => {
    const module = path.join(ROOT, "src/runtime/lifecycle/boundHeap.ts");
    const free = await measureHeap("");
    const bounded = await measureHeap(
      `const { boundHeap } = await import(${JSON.stringify(module)}); boundHeap();`,
    );
    expect(bounded).toBeGreaterThan(0);
    expect(bounded / free).toBeLessThan(0.8);
  },
);
