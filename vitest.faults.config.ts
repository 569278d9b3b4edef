import { configDefaults, defineConfig } from "vitest/config";
import { isShort } from "./test/support/faults/extent.ts";
import { REPORTERS } from "./test/support/run/runReport.ts";
import { keepTemporaryFilesInMemory } from "./test/support/run/temporaryFolder.ts";

keepTemporaryFilesInMemory();

/** The fault matrix: apart from the other tests, because it takes minutes. `npm run test:faults` runs it. */
export default defineConfig({
  test: {
    name: "faults",
    reporters: REPORTERS,
    environment: "node",
    include: ["test/faults/**/*.test.ts"],
    exclude: [...configDefaults.exclude, ...(isShort ? ["**/*.long.test.ts"] : [])],
    globalSetup: ["test/support/run/globalSetup.ts"],
    // For what hangs alone.
    testTimeout: 3_600_000,
    hookTimeout: 3_600_000,
    expect: { poll: { timeout: 600_000 } },
    experimental: { fsModuleCache: true },
    // Most of the time is spent waiting, for leases to run out and frozen servers: two files fit on two processors, and
    // more would only measure how they take each other's.
    maxWorkers: 2,
    // Each test closes the world that it opened; loading the test code again would take seconds per file.
    isolate: false,
  },
});
