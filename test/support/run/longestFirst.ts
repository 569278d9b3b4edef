import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files that take half a minute or more. If they began last, all workers but one would wait for them. */
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
  "test/e2e/edge/floods.test.ts",
  "test/e2e/firstHour/demo.test.ts",
  "test/e2e/firstHour/guest.test.ts",
  "test/e2e/firstHour/interruptedStart.test.ts",
  "test/e2e/firstHour/package.test.ts",
  "test/e2e/mirror/openapi.test.ts",
  "test/e2e/production/roles.test.ts",
];

/** Those of most waiting first, so that the computing ones fill the gaps at the end. */
const PROJECTS = ["e2e", "contract", "integration", "unit"];

/**
 * Project by project, in each the long files first and then Vitest's own sequence, which is by file size when there is no
 * cache of durations. Vitest keeps a process, with the modules that it has loaded, only for a next file of the same
 * project: each change of the project starts a process and loads the program again.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ project, moduleId }: TestSpecification) =>
      PROJECTS.indexOf(project.name) * 2 + (LONG.some((file) => moduleId.endsWith(file)) ? 0 : 1);
    return (await super.sort(files)).toSorted((one, other) => rank(one) - rank(other));
  }
}
