import type { Instant } from "./instant.ts";

export interface WebhookRecord {
  /**
   * A source without secrets has no webhook address: its plan sends nothing (spec, "Events"). Null: unknown here, and
   * no event ever arrived.
   */
  readonly configured: boolean | null;
  /** Time at which the last event arrived; null if none ever did. */
  readonly lastEventAt: Instant | null;
  /** Changes found by reads within the last 24 hours whose event did not arrive within the grace period. */
  readonly lost: number;
  /** Changes within the last 24 hours that an event announced, in time or late. */
  readonly announced: number;
  /** The number of lost changes found since the last event. */
  readonly lostSinceLastEvent: number;
}

/**
 * - `not-configured`: polled only, by choice.
 * - `never-seen`: no event ever arrived: the address is not entered at the provider, the plan has no webhooks, or
 *   nothing
 *   has happened yet.
 * - `working`: events arrive, and none was lost within the last 24 hours.
 * - `losing`: events arrive, and some were lost.
 * - `stopped`: changes that used to be announced are found only by reads, one after another.
 */
export type WebhookHealth = "not-configured" | "never-seen" | "working" | "losing" | "stopped";

/** Consecutive lost changes, without an event between them, that are not chance. */
export const STOPPED_AFTER_LOST = 3;

export function judgeWebhooks(record: WebhookRecord): WebhookHealth {
  if (record.configured === false) return "not-configured";
  if (record.lastEventAt === null) return "never-seen";
  if (record.lostSinceLastEvent >= STOPPED_AFTER_LOST) return "stopped";
  return record.lost > 0 ? "losing" : "working";
}

/** Share of announced changes that were lost, 0 to 1; null if nothing was to be announced. */
export function lossRate({ lost, announced }: Pick<WebhookRecord, "lost" | "announced">): number | null {
  const total = lost + announced;
  return total === 0 ? null : lost / total;
}
