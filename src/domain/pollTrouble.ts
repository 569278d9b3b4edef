/**
 * Why a poll failed, as far as it decides what a person does about it:
 * - `key_refused`: the provider does not accept the API key;
 * - `rate_limited`: it answered 429, so somebody else uses up the organization's rate;
 * - `slow`: it did not answer in time;
 * - `away`: it could not be reached, or answered 5xx or unreadably;
 * - `other`: anything else; the sentence beside it says what.
 */
export type PollTrouble = "key_refused" | "rate_limited" | "slow" | "away" | "other";
