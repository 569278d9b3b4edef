import type { Condition } from "./condition.ts";
import { EVENT_CONDITIONS } from "./eventConditions.ts";
import { POLL_CONDITIONS } from "./pollConditions.ts";
import { SERVER_CONDITIONS } from "./serverConditions.ts";

/** Every condition that the product evaluates, in the order of docs/runbook.md. */
export const CONDITIONS: readonly Condition[] = [
  ...SERVER_CONDITIONS,
  ...POLL_CONDITIONS,
  ...EVENT_CONDITIONS,
];
