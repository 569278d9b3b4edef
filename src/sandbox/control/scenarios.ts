import type { FaultsPatch } from "./faults.ts";
import type { ChangePlan } from "../api/orderBook.ts";

/** One step of a scenario, on its order or on the whole provider. */
export type ScenarioStep =
  | { readonly kind: "move"; readonly plan: ChangePlan }
  | { readonly kind: "cancel"; readonly plan: ChangePlan }
  /** Changes the customer's phone; no event announces it. */
  | { readonly kind: "change" }
  /** Sends the order's oldest event again. */
  | { readonly kind: "resend" }
  | { readonly kind: "faults"; readonly patch: FaultsPatch; readonly forMs: number };

export type ScenarioOptions = Readonly<Record<string, number>>;

/** A named way to misbehave; see runScenario. */
export interface Scenario {
  readonly name: string;
  /** What the provider does. */
  readonly summary: string;
  /** How a correct mirror reacts. */
  readonly expect: string;
  readonly options: ScenarioOptions;
  readonly steps: (options: ScenarioOptions) => readonly ScenarioStep[];
}

const move = (plan: ChangePlan = {}): ScenarioStep => ({ kind: "move", plan });
/** Longer than the polling interval: the event of the next status would otherwise reveal the lost one. */
const REST_MS = 60_000;
const STORM_MS = 20_000;
/** Faults for a while, during which the order moves on without an event. */
const storm = (patch: FaultsPatch, forMs = STORM_MS): readonly ScenarioStep[] => [
  { kind: "faults", patch, forMs },
  move({ lose: true }),
];

export const SCENARIOS: readonly Scenario[] = [
  {
    name: "lost-webhook",
    summary: "The order moves to the next status and stays there for a minute; its event is never sent.",
    expect: "The next poll brings the status and counts one lost event.",
    options: {},
    steps: () => [move({ lose: true, restMs: REST_MS })],
  },
  {
    name: "lost-cancellation",
    summary: "The fleet cancels the order; the event is never sent.",
    expect: "The next poll brings the cancellation.",
    options: {},
    steps: () => [{ kind: "cancel", plan: { lose: true } }],
  },
  {
    name: "duplicate",
    summary: "The order moves to the next status; its event is sent several times.",
    expect: "One is applied, the others are duplicates that change nothing.",
    options: { copies: 3 },
    steps: ({ copies }) => [move({ copies })],
  },
  {
    name: "out-of-order",
    summary: "The order moves two statuses forward; the first event arrives after the second.",
    expect: "The second is applied; the first is stale when it arrives.",
    options: { delayMs: 3_000 },
    steps: ({ delayMs }) => [move({ delayMs }), move({ delayMs: 0 })],
  },
  {
    name: "delayed-webhook",
    summary: "The order moves to the next status; its event is sent late.",
    expect:
      "A poll finds the change first; the event then changes nothing, and the loss is no longer counted.",
    options: { delayMs: 60_000 },
    steps: ({ delayMs }) => [move({ delayMs })],
  },
  {
    name: "bad-signature",
    summary: "The order moves to the next status; every attempt to send its event has a wrong signature.",
    expect: "The receiver refuses each attempt; the next poll brings the status.",
    options: {},
    steps: () => [move({ corrupt: true })],
  },
  {
    name: "stale-redelivery",
    summary: "The order moves two statuses forward; then its oldest event is sent again.",
    expect: "The old event is a duplicate and changes nothing.",
    options: {},
    steps: () => [move(), move(), { kind: "resend" }],
  },
  {
    name: "silent-change",
    summary: "The order's phone number changes, without an event.",
    expect: "The next poll brings the change, and no lost event is counted.",
    options: {},
    steps: () => [{ kind: "change" }],
  },
  {
    name: "late-commit",
    summary:
      "The order moves to the next status without an event, and readers see the change only later, under its old updatedAt.",
    expect: "A poll that has passed that time finds it through its overlap, or the delayed sweep does.",
    options: { lateMs: 8_000 },
    steps: ({ lateMs }) => [move({ lateMs, lose: true })],
  },
  {
    name: "late-commit-announced",
    summary: "The event of a change arrives before readers of the provider can see the change.",
    expect: "The event is applied; the older state that a poll still reads does not undo it.",
    options: { lateMs: 8_000 },
    steps: ({ lateMs }) => [move({ lateMs })],
  },
  {
    name: "future-timestamp",
    summary: "The order moves to the next status; its updatedAt is ahead of the provider's own clock.",
    expect: "It is applied, and the polling window does not jump ahead with it.",
    options: { aheadMs: 120_000 },
    steps: ({ aheadMs }) => [move({ misstampMs: aheadMs })],
  },
  {
    name: "past-timestamp",
    summary:
      "The order moves to the next status without an event; its updatedAt is behind the provider's clock.",
    expect: "A sweep over the past finds it.",
    options: { behindMs: 10_000 },
    steps: ({ behindMs = 0 }) => [move({ misstampMs: -behindMs, lose: true })],
  },
  {
    name: "same-timestamp",
    summary: "The order moves two statuses forward within one updatedAt; the second event is lost.",
    expect: "A settled read decides; the history shows a conflict.",
    options: {},
    steps: () => [move(), move({ sameTimestamp: true, lose: true })],
  },
  {
    name: "rate-limit-storm",
    summary: "All requests are answered with 429 for a while; meanwhile the order moves on without an event.",
    expect: "Polling waits as long as the answer asks, resumes where it left off, and loses nothing.",
    options: { forMs: STORM_MS, share: 1 },
    steps: ({ forMs, share }) => storm({ refuseShare: share, refuseRetryAfterSeconds: 5 }, forMs),
  },
  {
    name: "server-error-storm",
    summary: "All requests are answered with 503 for a while; meanwhile the order moves on without an event.",
    expect: "Polling backs off, resumes where it left off, and loses nothing.",
    options: { forMs: STORM_MS, share: 1 },
    steps: ({ forMs, share }) => storm({ failShare: share, failStatus: 503 }, forMs),
  },
  {
    name: "broken-answers",
    summary:
      "Answers of the order list are cut off half-way for a while; meanwhile the order moves on without an event.",
    expect: "A broken page is discarded; the window is read again.",
    options: { forMs: STORM_MS, share: 0.5 },
    steps: ({ forMs, share }) => storm({ truncateShare: share, onlyEndpoints: "listOrders" }, forMs),
  },
  {
    name: "slow-provider",
    summary: "Every answer is slow for a while; meanwhile the order moves on without an event.",
    expect: "Requests time out or wait, but never pile up.",
    options: { forMs: STORM_MS, latencyMs: 4_000 },
    steps: ({ forMs, latencyMs }) => storm({ latencyMs }, forMs),
  },
  {
    name: "clock-ahead",
    summary: "The provider's clock is ahead for a while; the order moves on without an event.",
    expect: "Windows follow the provider's clock; the skew is shown.",
    options: { forMs: STORM_MS, skewMs: 30_000 },
    steps: ({ forMs, skewMs }) => storm({ clockSkewMs: skewMs }, forMs),
  },
  {
    name: "webhook-chaos",
    summary:
      "For a while events are lost, duplicated, late and out of order; the order moves two statuses forward.",
    expect: "Afterwards the mirror equals the provider.",
    options: { forMs: STORM_MS, share: 0.3 },
    steps: ({ forMs = STORM_MS, share }) => [
      {
        kind: "faults",
        patch: { loseShare: share, duplicateShare: share, delayShare: share, reorderShare: share },
        forMs,
      },
      move(),
      move(),
    ],
  },
];
