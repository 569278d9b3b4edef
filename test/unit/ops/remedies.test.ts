import { expect, it } from "vitest";
import { CONDITIONS } from "../../../src/health/judge.ts";
import { findRemedy } from "../../../src/ops/remedies/remedies.ts";
import { ago, makeSourceFacts } from "../../support/pages/facts.ts";

/** At a server, at the provider, or at the configuration; or nobody has to do anything. */
const ELSEWHERE = [
  "NotWritable",
  "QueueAway",
  "OutgoingMissed",
  "OutgoingSlow",
  "FeedHeldUp",
  "ReplicaBehind",
  "NoLeader",
  "NotPolled",
  "KeyRefused",
  "ProviderAway",
  "ProviderSlow",
  "RateLimited",
  "PollFailing",
  "ListIncomplete",
  "EventsWait",
  "WebhooksRefused",
  "NoSecret",
  "BadSignatures",
  "ClaimsRefuted",
  "EventsRefused",
  "SlowAnswers",
  "ClocksDisagree",
  "EventsStopped",
  "EventsLost",
  "EventsLate",
];

it("have a button for each condition that can be remedied from the pages", () => {
  const standing = makeSourceFacts({ gaps: 1, quarantined: 2 });
  const without = CONDITIONS.filter((condition) => {
    const holding = { condition, subject: "live", since: ago(0), cause: "", remedy: "" };
    return findRemedy(holding, standing) === null;
  });
  expect(without.map(({ name }) => name.replace("OrderMirror", "")).toSorted()).toEqual(ELSEWHERE.toSorted());
});
