/**
 * Why a poll failed, classified by what a person should do:
 * - `key_refused`: the provider refuses the API key;
 * - `rate_limited`: it answered 429: somebody else uses up the organization's rate limit, or it is lower than
 *   documented;
 * - `slow`: it did not answer in time;
 * - `away`: it could not be reached, or answered 5xx or unreadably;
 * - `other`: anything else; the accompanying sentence says what.
 */
export type PollTrouble = "key_refused" | "rate_limited" | "slow" | "away" | "other";
