import { hostname } from "node:os";
import { UnavailableError } from "../domain/errors.ts";
import { millisFromInstant } from "../domain/instant.ts";
import type { Pool } from "../mirror/database.ts";
import { acquireLease } from "../mirror/leases.ts";
import { advanceLostEvents } from "../mirror/lostEvents.ts";
import { readSourceFigures } from "../mirror/readMetrics.ts";
import { makeAlerter } from "../ops/alerter.ts";
import type { AlertMessage } from "../ops/alerter.ts";
import type { Clock } from "../runtime/clock.ts";
import { loadScheme } from "../signature/scheme.ts";
import { makeSigner } from "../signature/sign.ts";
import { openPool } from "./role.ts";
import type { RoleDeps } from "./role.ts";

const LOOK_INTERVAL_MS = 10_000;
/** Nobody renews or gives back the lease, so one process does the work, once in this time. */
const TURN_MS = 30_000;
/** An event that comes so long after the read that found its change counts as lost until it does come. */
const EVENT_GRACE_SECONDS = 60;
const SEND_TIMEOUT_MS = 5_000;
const KEEPER_POOL = { purpose: "keeper", max: 1, statementTimeoutMs: 20_000 };

/**
 * The work that is due every half minute and that only one process should do: the ledger of lost events, and the
 * alerts where ALERT_WEBHOOK_URL asks for them. Every process offers itself, so that a dead poller or worker is
 * noticed by the others.
 */
export function startKeeper(deps: RoleDeps): void {
  const { config, clock, logger, shutdown } = deps;
  const pool = openPool(deps, KEEPER_POOL);
  const closing = new AbortController();
  const alert = makeAlerts(deps, pool);
  const holder = `${hostname()}:${process.pid}`;
  const announced = config.sources.filter(({ webhookSecrets }) => webhookSecrets.length > 0);

  async function takeTurn(): Promise<void> {
    const lease = await acquireLease(pool, { name: "keeper", holder, ttlMs: TURN_MS });
    if (lease === undefined) return;
    for (const { sourceId } of announced) {
      await advanceLostEvents(pool, { sourceId, graceSeconds: EVENT_GRACE_SECONDS });
    }
    await alert?.();
  }
  const running = (async () => {
    while (!closing.signal.aborted) {
      await takeTurn().catch((error: unknown) => {
        if (!closing.signal.aborted)
          logger.warn({ err: error }, "the keeper's turn failed; another one follows");
      });
      await clock.sleep(LOOK_INTERVAL_MS, closing.signal).catch(() => undefined);
    }
  })();
  shutdown.onShutdown("keeper", async () => {
    closing.abort();
    await running;
  });
}

function makeAlerts(deps: RoleDeps, pool: Pool): (() => Promise<void>) | undefined {
  const { config, clock, logger } = deps;
  const { alertWebhook } = config;
  if (alertWebhook === null) return undefined;
  const known = new Set(config.sources.map(({ sourceId }) => sourceId));
  const runOnce = makeAlerter({ pool, send: makeSender(alertWebhook, clock), logger });
  return async () => {
    const figures = await readSourceFigures(pool);
    // A source that is no longer configured is not polled, and nobody needs to be told so.
    await runOnce(figures.filter(({ sourceId }) => known.has(sourceId)));
  };
}

/** Sends a message signed as Standard Webhooks; the receiver has 5 s to answer 2xx. */
export function makeSender({ url, secret }: { url: string; secret: string }, clock: Clock) {
  const sign = makeSigner({ scheme: loadScheme("standard-webhooks"), secret });
  return async (message: AlertMessage): Promise<void> => {
    const body = Buffer.from(JSON.stringify(message));
    const nowSeconds = Math.floor(millisFromInstant(clock.now()) / 1_000);
    const answer = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", ...sign({ id: message.id, body, nowSeconds }) },
      body,
      redirect: "error",
      signal: AbortSignal.timeout(SEND_TIMEOUT_MS),
    });
    await answer.body?.cancel();
    if (!answer.ok) throw new UnavailableError(`The alert webhook answered ${answer.status}.`);
  };
}
