import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { LongestFirst } from "./test/support/run/longestFirst.ts";
import { REPORTERS } from "./test/support/run/runReport.ts";
import { keepTemporaryFilesInMemory } from "./test/support/run/temporaryFolder.ts";

keepTemporaryFilesInMemory();

const WORKERS_MAX = 6;
/** Tests wait for half of their time, for servers and for clocks. Each worker has a Postgres. */
const workers = availableParallelism() * 2;
/**
 * Time-outs are for what hangs: on a busy machine a sound test takes many times as long as on a quiet one. Planted flaws may
 * make a test hang: whoever runs them has less patience.
 */
const pollTimeout = Number(process.env["POLL_TIMEOUT_MS"] ?? 600_000);
const shared = {
  restoreMocks: true,
  environment: "node" as const,
  testTimeout: 3_600_000,
  hookTimeout: 3_600_000,
  expect: { poll: { timeout: pollTimeout } },
  // By content: what one project or an earlier run has compiled serves all. A small run takes a third less of the processor.
  experimental: { fsModuleCache: true },
};
const setupFiles = ["test/support/run/seedProperties.ts"];
const globalSetup = ["test/support/run/globalSetup.ts"];

export default defineConfig({
  test: {
    reporters: REPORTERS,
    sequence: { sequencer: LongestFirst },
    maxWorkers: Math.min(workers, WORKERS_MAX),
    projects: [
      // What only computes leaves nothing behind, so that its files can share a process and what it has loaded.
      {
        test: {
          ...shared,
          name: "unit",
          include: ["test/unit/**/*.test.ts"],
          setupFiles,
          isolate: false,
        },
      },
      // Loading the program takes longer than many a file's tests; each file closes what it opened.
      {
        test: {
          ...shared,
          name: "integration",
          include: ["test/integration/**/*.test.ts"],
          setupFiles,
          globalSetup,
          isolate: false,
        },
      },
      { test: { ...shared, name: "e2e", include: ["test/e2e/**/*.test.ts"], globalSetup, isolate: false } },
      {
        test: {
          ...shared,
          // The provider's contract, held against the mirror.
          name: "contract",
          include: ["test/e2e/provider-contract/**/*.test.ts"],
          env: { CONTRACT_TARGET: "mirror" },
          setupFiles: ["test/support/contract/mirrorExceptions.ts"],
          globalSetup,
          isolate: false,
        },
      },
    ],
  },
});
