import { expect, it } from "vitest";
import { readAsset, readPackageFile, STYLE } from "../../../src/html/style.ts";

const RULES = readAsset("pages.css");

// That text can be read on its background, in both themes, is measured in a browser: opsBrowser.test.ts.
it("the style sheet uses no other colour, no other size of text, and no value that is not declared", () => {
  const rules = RULES.replaceAll(/--[\w-]+: [^;]+;/g, "");
  expect(rules).not.toMatch(/#[0-9a-f]{3,6}\b(?=[^{]*\})/i);
  expect(rules).not.toMatch(/font(?:-size)?: [\d.]+rem/);
  const used = [...RULES.matchAll(/var\(--([\w-]+)/g)].map(([, name = ""]) => name);
  expect(used.filter((name) => !STYLE.includes(`--${name}:`))).toEqual([]);
});

// After an update of the package: run this test with -u, and look at the pages.
it("the base of the style sheet is the package's own", async () => {
  const text = readPackageFile("@picocss/pico/css/pico.fluid.classless.min.css");
  await expect(text).toMatchFileSnapshot("../../../assets/pico.css");
});
