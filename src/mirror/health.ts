import { UnavailableError } from "../domain/errors.ts";
import { instantFromMillis } from "../domain/order/instant.ts";
import { makeAlerter, type AlertMessage } from "../health/alerts.ts";
import type { QueueFacts } from "../health/conditions/servers.ts";
import { makeHealthReader, type HealthReader } from "../health/health.ts";
import { judgeAnswer, makeSend } from "../outgoing/outgoingSend.ts";
import type { ApplyQueue } from "../queue/applyQueue.ts";
import { withTimeout } from "../process/abort.ts";
import type { Clock } from "../process/clock.ts";
import type { Config } from "../config/config.ts";
import { makeSigner } from "../signature/sign.ts";
import { openPool, runExclusively, type QueueDeps, type RoleDeps } from "./role.ts";

const HEALTH_POOL = { purpose: "metrics", max: 1, statementTimeoutMs: 3_000 };

/** The process's reader of the mirror's state: one for page, metrics, readiness and alerts. */
export function openHealth(deps: RoleDeps & Partial<QueueDeps>): HealthReader {
  const { config, clock, queue } = deps;
  return makeHealthReader({
    pool: openPool(deps, HEALTH_POOL),
    clock,
    sources: config.sources,
    readQueues: queue && (async () => [await readQueueFacts(queue)]),
  });
}

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
  const [problems, failed, jobs] = await Promise.all([
    withTimeout(check().catch(late), deadlineMs),
    withTimeout(bull.getFailed(0, 0).catch(late), deadlineMs),
    withTimeout(bull.getJobCounts().catch(late), deadlineMs),
  ]);
  const finishedOn = failed === "late" ? undefined : failed[0]?.finishedOn;
  return {
    name: bull.name,
    problems: problems === "late" ? [NO_ANSWER] : problems,
    newestDeadAt: finishedOn === undefined ? null : instantFromMillis(finishedOn),
    ...(jobs !== "late" && { jobs }),
  };
}

const TURN_MS = 30_000;
const SEND_TIMEOUT_MS = 5_000;
type AlertWebhook = NonNullable<Config["alertWebhook"]>;

const ALERTING_POOL = { purpose: "alerting", max: 1, statementTimeoutMs: 20_000 };

/**
 * Records which conditions hold, and sends alerts to ALERT_WEBHOOK_URL if it is set. Every process may do it and one
 * takes the turn, so that the others notice a dead poller or worker.
 */
export function startAlerting(deps: RoleDeps & { readonly health: HealthReader }): void {
  const { config, health, clock, logger } = deps;
  const pool = openPool(deps, ALERTING_POOL);
  const alert = makeAlerter({
    pool,
    send: config.alertWebhook && makeSender(config.alertWebhook, clock),
    logger,
  });
  runExclusively(deps, { name: "alerting", pool, turnMs: TURN_MS }, async () => alert(await health.read()));
}

/** Sends a message signed as Standard Webhooks; the receiver has 5 s to answer 2xx. */
export function makeSender({ url, secret }: AlertWebhook, clock: Clock) {
  const sign = makeSigner({ secrets: [secret] });
  const send = makeSend({ url, sign, clock, timeoutMs: SEND_TIMEOUT_MS });
  return async (message: AlertMessage): Promise<void> => {
    const sent = await send({ id: message.id, body: Buffer.from(JSON.stringify(message)) });
    const { outcome, result } = judgeAnswer(sent, true);
    if (result !== "delivered") throw new UnavailableError(`The alert webhook failed: ${outcome}.`);
  };
}
