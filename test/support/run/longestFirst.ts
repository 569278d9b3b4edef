import { BaseSequencer } from "vitest/node";
import type { TestSpecification } from "vitest/node";

/** Files that take minutes. If they began last, all workers but one would wait at the end of a run. */
const LONG = [
  "test/integration/proof/proofSchedules.test.ts",
  "test/integration/proof/proofSchedulesRest.test.ts",
  "test/integration/poll/backfillPace.test.ts",
  "test/integration/proof/lateArrivals.test.ts",
  "test/e2e/mirror/canary.test.ts",
  "test/unit/poll/convergence.test.ts",
];

/** Long files first, then Vitest's own sequence, which is by file size when there is no cache of durations. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification) => LONG.some((file) => moduleId.endsWith(file));
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}
