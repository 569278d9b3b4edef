import type { PollTrouble } from "../../domain/pollTrouble.ts";
import { failureOf } from "../../domain/source/errors.ts";
import { describeMessage } from "../../runtime/telemetry/errorFields.ts";
import type { CycleFailure } from "../ledger/pollState.sql.ts";

/** What is stored about an error that ended a cycle. */
export function describePollFailure(error: unknown): CycleFailure {
  return { sentence: describeMessage(error), trouble: nameTrouble(error) };
}

function nameTrouble(error: unknown): PollTrouble {
  const failure = failureOf(error);
  if (failure === "key_refused" || failure === "rate_limited") return failure;
  if (failure === "timeout") return "slow";
  return failure === "unavailable" || failure === "unreadable" ? "away" : "other";
}
