import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files that take half a minute or more. If they began last, all workers but one would wait at the end of a run. */
const LONG = [
  "test/integration/ops/opsBrowser.test.ts",
  "test/integration/poll/proof/everyChange.test.ts",
  "test/integration/poll/pollHalfHour.test.ts",
  "test/integration/health/conditions.test.ts",
  "test/integration/poll/pollHostile.test.ts",
  "test/integration/poll/proof/proofSchedules.test.ts",
  "test/integration/poll/proof/proofSchedulesRest.test.ts",
  "test/integration/poll/proof/providerFamily.test.ts",
  "test/e2e/edge/overload.test.ts",
  "test/e2e/edge/proxies.test.ts",
  "test/e2e/firstHour/demo.test.ts",
  "test/e2e/firstHour/guest.test.ts",
  "test/e2e/firstHour/interruptedStart.test.ts",
  "test/e2e/firstHour/package.test.ts",
  "test/e2e/mirror/openapi.test.ts",
  "test/e2e/production/roles.test.ts",
];

/**
 * Long files first, then project by project, and in each Vitest's own sequence, which is by file size when there is no
 * cache of durations. Vitest keeps a process, with the modules that it has loaded, only for a next file of the same
 * project: with projects mixed, nearly every file would start a process and load the program again.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification) => LONG.some((file) => moduleId.endsWith(file));
    return [
      ...groupByProject(sorted.filter(isLong)),
      ...groupByProject(sorted.filter((file) => !isLong(file))),
    ];
  }
}

function groupByProject(files: readonly TestSpecification[]): TestSpecification[] {
  const projects = [...new Set(files.map(({ project }) => project.name))];
  return projects.flatMap((name) => files.filter(({ project }) => project.name === name));
}
