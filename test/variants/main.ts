/**
 * `npm run test:variants [name …]`: checks that the suite detects flaws. Builds each flawed variant in a copy of
 * the sources, runs the test that must fail on it, and reports the result. First runs the tests on the unchanged sources.
 * Exits with 1 when a variant is not detected.
 */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { plant, testOf, VARIANTS, type Variant } from "./variants.ts";

const ROOT = path.resolve(import.meta.dirname, "../..");
/** What a copy does without, or links to. */
const LEFT_OUT = new Set(["node_modules", ".git", ".data", "dist"]);

interface Assertion {
  readonly fullName: string;
  readonly status: string;
}

/** The tests of these names that have an outcome; rejects when there is none, or the file could not be loaded. */
async function runTests(tree: string, file: string, tests: readonly string[]): Promise<Assertion[]> {
  const report = path.join(tree, "report.json");
  await rm(report, { force: true });
  const pattern = tests.map((test) => test.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)).join("|");
  const output = ["--reporter=json", `--outputFile=${report}`];
  const args = ["run", file, "-t", pattern, "--maxWorkers=1", "--testTimeout=120000", ...output];
  // This many schedules are enough to find every flaw of the list; that a property fails is enough, too.
  const env = { PROOF_SCHEDULES: "600", PROPERTY_SHRINKS: "0", POLL_TIMEOUT_MS: "20000", ...process.env };
  const vitest = path.join(ROOT, "node_modules/vitest/vitest.mjs");
  await new Promise((resolve) => {
    spawn(process.execPath, [vitest, ...args], { cwd: tree, stdio: "ignore", env }).once("close", resolve);
  });
  const { testResults } = JSON.parse(await readFile(report, "utf8")) as {
    testResults: { assertionResults: Assertion[] }[];
  };
  const outcomes = testResults
    .flatMap(({ assertionResults }) => assertionResults)
    .filter(({ status }) => status === "passed" || status === "failed");
  if (outcomes.length === 0) throw new Error(`no test "${tests.join('" or "')}" ran in ${file}`);
  return outcomes;
}

async function withFlaw<Result>(tree: string, variant: Variant, run: () => Promise<Result>): Promise<Result> {
  const place = (file: string) => path.join(tree, "src", file);
  const read = (file: string) => readFileSync(place(file), "utf8");
  const changed = plant(variant, read);
  const before = [...changed.keys()].map((file) => [file, read(file)] as const);
  try {
    for (const [file, text] of changed) await writeFile(place(file), text);
    return await run();
  } finally {
    for (const [file, text] of before) await writeFile(place(file), text);
  }
}

/** The outcomes on the unchanged sources, by the file of the tests. */
const soundRuns = new Map<string, Promise<Assertion[]>>();

/** The test that fails on the flaw, and the seconds until it was seen; rejects if one fails without it, too. */
async function judge(tree: string, variant: Variant): Promise<string> {
  const { file, test } = testOf(variant);
  const named = chosen.map(testOf).flatMap((other) => (other.file === file ? [other.test] : []));
  const sound = soundRuns.get(file) ?? runTests(tree, file, named);
  soundRuns.set(file, sound);
  const broken = (await sound).find(({ status }) => status === "failed");
  if (broken) throw new Error(`fails without any flaw: ${broken.fullName}`);
  const startedMs = performance.now();
  const outcomes = await withFlaw(tree, variant, () => runTests(tree, file, [test]));
  const seconds = Math.round((performance.now() - startedMs) / 1_000);
  const failed = outcomes.find(({ status }) => status === "failed");
  return failed ? `caught in ${seconds} s by ${file}: ${failed.fullName}` : "NOT CAUGHT";
}

const wanted = process.argv.slice(2);
const chosen = VARIANTS.filter(
  ({ flaw }) => wanted.length === 0 || wanted.some((part) => flaw.includes(part)),
);
const tree = await mkdtemp(path.join(tmpdir(), "order-mirror-variants-"));
let unnoticed = 0;
try {
  const filter = (source: string) => !LEFT_OUT.has(path.relative(ROOT, source));
  await cp(ROOT, tree, { recursive: true, filter });
  await symlink(path.join(ROOT, "node_modules"), path.join(tree, "node_modules"));
  for (const variant of chosen) {
    const verdict = await judge(tree, variant).catch(
      (error: unknown) => `NOT JUDGED: ${error instanceof Error ? error.message : String(error)}`,
    );
    if (!verdict.startsWith("caught")) unnoticed += 1;
    process.stdout.write(`${variant.flaw}\n    ${verdict}\n`);
  }
} finally {
  await rm(tree, { recursive: true, force: true });
}
process.stdout.write(`${chosen.length - unnoticed} of ${chosen.length} flawed variants caught\n`);
if (unnoticed > 0 || chosen.length === 0) process.exitCode = 1;
