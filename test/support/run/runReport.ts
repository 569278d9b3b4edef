const file = process.env["TEST_REPORT"];

/** Vitest's reporters; where the environment's TEST_REPORT names a file, its JSON goes there, for `.ci/summary`. */
export const REPORTERS: ("default" | ["json", { outputFile: string }])[] =
  file === undefined ? ["default"] : ["default", ["json", { outputFile: file }]];
