import { parseArgs } from "node:util";

/** What the command line asks for. */
export const { values: asked } = parseArgs({
  // Processes of the bench have arguments of their own.
  allowPositionals: true,
  options: {
    section: { type: "string", multiple: true },
    runs: { type: "string", default: "5" },
    json: { type: "boolean" },
    quick: { type: "boolean" },
    help: { type: "boolean" },
  },
});

/** `--quick` checks that the bench works: one run with a tenth of the work, whose figures mean nothing. */
const QUICK = asked.quick === true;

/** Counted runs, in addition to the warm-up run. */
export const RUNS = QUICK ? 1 : Number(asked.runs);

/** An amount of work, or its part with --quick. */
export function amount(units: number): number {
  return QUICK ? Math.ceil(units / 10) : units;
}
