import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { DEVIATIONS } from "../../support/contract/deviations.ts";

const TEXT = readFileSync(path.resolve(import.meta.dirname, "../../../docs/assumptions.md"), "utf8");

it("lists exactly the differences between the mirror's answers and the provider's", () => {
  const section = TEXT.split("\n## How the mirror's answers differ from the provider's\n")[1]!.split(
    "\n## ",
  )[0]!;
  const rows = section.split("\n").filter((line) => line.startsWith("| "));
  const cells = rows.slice(2).map((row) => row.split("|").map((cell) => cell.trim()));
  expect(cells.map(([, what, why]) => ({ what, why }))).toEqual(
    DEVIATIONS.map(({ what, why }) => ({ what, why })),
  );
});
