import path from "node:path";
import { beforeEach } from "vitest";

/**
 * All cases in which the mirror does not answer as the provider does, with the reasons. Each row names a file of the
 * contract suite and the full names of its tests.
 */
const EXCEPTIONS: readonly { file: string; tests: RegExp; why: string }[] = [
  {
    file: "limits.test.ts",
    tests: /^rate headers > (?:of GET |are on every response|count down)|^order-list/,
    why: "reads are answered by the mirror, which has no rate limits",
  },
  {
    file: "limits.test.ts",
    tests: /^geocoding|^sustained/,
    why: "writes wait for their turn in the mirror, which leaves the poller its part of the rates",
  },
  {
    file: "listOrders.test.ts",
    tests: /^status and branch > branch may be closed$/,
    why: "a branch that was closed before the mirror first looked, and has no orders, is unknown to it",
  },
];

beforeEach(({ task, skip }) => {
  const file = path.basename(task.file.filepath);
  const name = task.fullTestName;
  const exception = EXCEPTIONS.find((each) => each.file === file && each.tests.test(name));
  if (exception === undefined) return;
  process.stderr.write(`NOT RUN: ${name}. Not as the provider: ${exception.why}.\n`);
  skip(`not as the provider: ${exception.why}`);
});
