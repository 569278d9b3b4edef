import type { Condition } from "./condition.ts";
import { EVENT_CONDITIONS } from "./eventConditions.ts";
import { POLL_CONDITIONS } from "./pollConditions.ts";
import { SERVER_CONDITIONS } from "./serverConditions.ts";

/** Every condition that the product judges, in the order of docs/runbook.md. */
export const CONDITIONS: readonly Condition[] = [
  ...SERVER_CONDITIONS,
  ...POLL_CONDITIONS,
  ...EVENT_CONDITIONS,
];

/** What only somebody outside can see; judged by Prometheus alone, from an expression of its own. */
export const OUTSIDE_CONDITIONS: readonly (Pick<
  Condition,
  "name" | "severity" | "measures" | "forSeconds" | "remedy"
> & { readonly expression: string })[] = [
  {
    name: "OrderMirrorAbsent",
    severity: "critical",
    measures: "no process can be scraped",
    forSeconds: 300,
    remedy:
      "Start the web process, or correct the scrape target; events sent meanwhile are refused and must be repaired by polling.",
    expression: "absent(order_mirror_build_info)",
  },
  {
    name: "OrderMirrorDatabaseAway",
    severity: "critical",
    measures: "Postgres cannot be read",
    forSeconds: 120,
    remedy:
      "Bring Postgres back; `order-mirror doctor` says what is wrong. Events are answered 503 meanwhile.",
    expression: "max(order_mirror_database_up) == 0",
  },
];
