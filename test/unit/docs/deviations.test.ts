import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { API_ENDPOINTS } from "../../../src/api/endpoints.ts";
import { pageSchema } from "../../../src/api/orderQuery.ts";
import { waitSchema } from "../../../src/api/orderRoutes.ts";
import { CONTRACT_ENDPOINTS } from "../../../src/wire/endpoints.ts";
import { listFilterSchema } from "../../../src/wire/listParameters.ts";
import { DEVIATIONS } from "../../support/contract/deviations.ts";

const TEXT = readFileSync(path.resolve(import.meta.dirname, "../../../docs/assumptions.md"), "utf8");

it("lists exactly the differences between the mirror's answers and the provider's", () => {
  const section = TEXT.split("\n## How the mirror's answers differ from the provider's\n")[1]!.split(
    "\n## ",
  )[0]!;
  const rows = section.split("\n").filter((line) => line.startsWith("| "));
  const cells = rows.slice(2).map((row) => row.split("|").map((cell) => cell.trim()));
  expect(cells.map(([, what]) => what)).toEqual(DEVIATIONS.map(({ what }) => what));
  for (const [, what, why] of cells) expect([what, why]).toEqual([what, expect.stringMatching(/\w/)]);
});

it("names every address and every parameter of our own", () => {
  const named = DEVIATIONS.map(({ what }) => what).join(" ");
  const theirPaths = new Set<string>(CONTRACT_ENDPOINTS.map(({ path }) => path));
  const ours = API_ENDPOINTS.map(({ path }) => path).filter((address) => !theirPaths.has(address));
  expect(ours.filter((address) => !named.includes(`\`${address}\``))).toEqual([]);
  const theirs = new Set([...Object.keys(listFilterSchema.shape), "sort", "limit", "offset"]);
  const parameters = [...Object.keys(pageSchema.shape), ...Object.keys(waitSchema.shape)];
  expect(parameters.filter((name) => !theirs.has(name) && !named.includes(`\`${name}\``))).toEqual([]);
});
