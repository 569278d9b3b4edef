import { instantFromMillis } from "../../domain/order/instant.ts";
import type { QueueFacts } from "../../health/condition.ts";
import type { ApplyQueue } from "../../queue/applyQueue.ts";
import { withTimeout } from "../../runtime/lifecycle/abort.ts";

/** Every reader of the mirror's state in a process that serves waits for this. */
const ANSWER_DEADLINE_MS = 1_000;

const NO_ANSWER = {
  problem: "The queue's server does not answer; workers find events without it, some seconds later.",
  fix: "Start Redis, see REDIS_URL.",
};

/** The facts about a queue that its conditions need; never rejects and takes at most `deadlineMs`. */
export async function readQueueFacts(
  { bull, check }: Pick<ApplyQueue, "bull" | "check">,
  deadlineMs = ANSWER_DEADLINE_MS,
): Promise<QueueFacts> {
  const late = () => "late" as const;
  const [problems, failed] = await Promise.all([
    withTimeout(check().catch(late), deadlineMs),
    withTimeout(bull.getFailed(0, 0).catch(late), deadlineMs),
  ]);
  const finishedOn = failed === "late" ? undefined : failed[0]?.finishedOn;
  return {
    name: bull.name,
    problems: problems === "late" ? [NO_ANSWER] : problems,
    newestDeadAt: finishedOn === undefined ? null : instantFromMillis(finishedOn),
  };
}
