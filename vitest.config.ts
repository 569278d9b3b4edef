import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { listReporters } from "./test/support/runReport.ts";

const WORKERS_MAX = 4;
const shared = { restoreMocks: true, environment: "node" as const };

export default defineConfig({
  test: {
    reporters: listReporters(),
    // Tests mostly wait, for servers and for time: one worker per processor rather than one less. Each has a Postgres.
    maxWorkers: Math.min(availableParallelism(), WORKERS_MAX),
    projects: [
      { test: { ...shared, name: "unit", include: ["test/unit/**/*.test.ts"] } },
      {
        test: {
          ...shared,
          name: "integration",
          include: ["test/integration/**/*.test.ts"],
          globalSetup: ["test/support/globalSetup.ts"],
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
      {
        test: {
          ...shared,
          name: "e2e",
          include: ["test/e2e/**/*.test.ts"],
          globalSetup: ["test/support/globalSetup.ts"],
          testTimeout: 120_000,
          hookTimeout: 120_000,
          fileParallelism: false,
        },
      },
      {
        test: {
          ...shared,
          // The provider's contract, held against the mirror.
          name: "contract",
          include: ["test/e2e/provider-contract/**/*.test.ts"],
          env: { CONTRACT_TARGET: "mirror" },
          setupFiles: ["test/support/mirrorExceptions.ts"],
          globalSetup: ["test/support/globalSetup.ts"],
          testTimeout: 120_000,
          hookTimeout: 120_000,
          fileParallelism: false,
        },
      },
    ],
  },
});
