import type { SourceView } from "../../../src/ops/overview/overview.sql.ts";
import { makeSourceFacts } from "./facts.ts";

type Parts = Partial<Omit<SourceView, "standing">> & { standing?: Partial<SourceView["standing"]> };

/** The overview's input for a healthy source; `parts` replaces some of it. */
export function makeSourceView({ standing = {}, ...parts }: Parts = {}): SourceView {
  return {
    standing: makeSourceFacts(standing),
    webhooks: "working",
    listReads: { sent: 0, allowed: 1_080 },
    tasks: [],
    ...parts,
  };
}
