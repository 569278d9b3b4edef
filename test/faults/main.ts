/**
 * `npm run test:faults [-- --short] [--seed S] [further options of vitest]`: the fault matrix.
 * `npm run test:soak -- --minutes N --seed S`: random faults for N minutes.
 */
import { spawn } from "node:child_process";
import path from "node:path";
import { parseArgs } from "node:util";

const ROOT = path.resolve(import.meta.dirname, "../..");
const SEED_MAX = 2 ** 31;

const { values, positionals, tokens } = parseArgs({
  strict: false,
  tokens: true,
  options: {
    short: { type: "boolean" },
    soak: { type: "boolean" },
    minutes: { type: "string" },
    seed: { type: "string" },
  },
});
const OWN = ["short", "soak", "minutes", "seed"];
const forwarded = tokens.flatMap((token) =>
  token.kind === "option" && !OWN.includes(token.name)
    ? [token.value === undefined ? token.rawName : `${token.rawName}=${token.value}`]
    : [],
);
const seed = values["seed"] ?? String(Math.floor(Math.random() * SEED_MAX));
const seconds = values["minutes"] === undefined ? undefined : Number(values["minutes"]) * 60;
if (!/^\d+$/.test(String(seed)) || (seconds !== undefined && !(seconds > 0))) {
  process.stderr.write("--seed wants a whole number, --minutes a number above 0.\n");
  process.exit(2);
}
process.stderr.write(`Seed ${seed}: repeat this run with --seed ${seed}.\n`);
const vitest = path.join(ROOT, "node_modules/vitest/vitest.mjs");
const files = values["soak"] === true ? ["test/faults/randomFaults.test.ts"] : positionals;
const child = spawn(
  process.execPath,
  [vitest, "run", "--config", "vitest.faults.config.ts", ...files, ...forwarded],
  {
    cwd: ROOT,
    stdio: "inherit",
    env: {
      ...process.env,
      FAULTS_SEED: String(seed),
      ...(values["short"] === true ? { FAULTS_EXTENT: "short" } : {}),
      ...(seconds === undefined ? {} : { FAULTS_SECONDS: String(seconds) }),
    },
  },
);
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => child.kill(signal));
child.once("close", (code) => process.exit(code ?? 1));
