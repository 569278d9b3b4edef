import type { PollTrouble } from "../../domain/pollTrouble.ts";
import { InvalidApiKeyError, ProviderUnavailableError, RateLimitedError } from "../../provider/errors.ts";
import { describeMessage } from "../../runtime/telemetry/errorFields.ts";
import type { CycleFailure } from "../ledger/pollState.sql.ts";

/** What is noted of an error that ended a cycle. */
export function describePollFailure(error: unknown): CycleFailure {
  return { sentence: describeMessage(error), trouble: nameTrouble(error) };
}

function nameTrouble(error: unknown): PollTrouble {
  if (error instanceof InvalidApiKeyError) return "key_refused";
  if (error instanceof RateLimitedError) return "rate_limited";
  if (error instanceof ProviderUnavailableError) return error.reason === "timeout" ? "slow" : "away";
  return "other";
}
