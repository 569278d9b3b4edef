import { COMMON_MIN, estimateUnseen } from "../domain/captureRecapture.ts";
import { formatInstant, tryParseInstant } from "../domain/order/instant.ts";
import { quantile } from "../domain/window/lateness.ts";
import type { Window } from "../domain/window/window.ts";
import type { DelayCount, ProviderFigures } from "./reportCard.sql.ts";

/** A figure of the card. */
export interface CardLine {
  /** For programs. */
  readonly name: string;
  readonly value: number | string | null;
  readonly title: string;
  /** The value for people, with its unit. */
  readonly text: string;
  readonly meaning: string;
}

export interface CardSection {
  readonly title: string;
  readonly lines: readonly CardLine[];
  readonly notes: readonly string[];
}

/** What a provider did in a month, as one source of the mirror saw it. */
export interface ReportCard {
  readonly sourceId: string;
  /** As 2026-11, of UTC. */
  readonly month: string;
  readonly provider: string;
  readonly madeAt: string;
  /** Why the card does not cover the whole month; empty if it does. */
  readonly remarks: readonly string[];
  readonly sections: readonly CardSection[];
}

/** The period of a month of UTC, given as 2026-11; undefined for any other text. */
export function monthPeriod(month: string): Window | undefined {
  if (!/^\d{4}-\d\d$/.test(month)) return undefined;
  const since = tryParseInstant(`${month}-01T00:00:00Z`);
  const until = tryParseInstant(`${shiftMonth(month, 1)}-01T00:00:00Z`);
  return since === undefined || until === undefined ? undefined : { since, until };
}

/** The month `by` months later. */
export function shiftMonth(month: string, by: number): string {
  const [year = 0, number = 1] = month.split("-").map(Number);
  const months = year * 12 + number - 1 + by;
  return `${String(Math.floor(months / 12)).padStart(4, "0")}-${String((months % 12) + 1).padStart(2, "0")}`;
}

export function makeReportCard(
  { sourceId, month, period }: { sourceId: string; month: string; period: Window },
  figures: ProviderFigures,
): ReportCard {
  return {
    sourceId,
    month,
    provider: figures.provider,
    madeAt: formatInstant(figures.now, 0),
    remarks: listRemarks(period, figures),
    sections: [judgeEvents(figures), judgeReads(figures), judgeUnseen(figures)],
  };
}

function listRemarks({ since, until }: Window, { now, createdAt, observedSince }: ProviderFigures): string[] {
  const remarks = [];
  if (now < until) remarks.push("The month is not over.");
  if (createdAt > since)
    remarks.push(`The source was configured at ${formatInstant(createdAt, 0)}: the figures begin then.`);
  if (observedSince !== null && observedSince > since) {
    remarks.push(
      `Retention has removed observations before ${formatInstant(observedSince, 0)}: the refuted claims and the estimate begin then.`,
    );
  }
  return remarks;
}

function judgeEvents(figures: ProviderFigures): CardSection {
  const { delays, late, lost, waiting, notAnnounced, refuted } = figures;
  const announced = countAll(delays);
  const expected = announced + lost;
  return {
    title: "Events",
    lines: [
      count("events_announced", announced, "Announced changes", "Changes of status that an event announced."),
      ...([50, 95, 99] as const).map((percent) =>
        delay(`event_delay_p${percent}_seconds`, `Delay, p${percent}`, {
          counts: delays,
          percent,
          meaning: `From updatedAt, by the provider's clock, to the mirror, by its own, for ${percent} % of the events.`,
        }),
      ),
      part(
        "events_late",
        [late, announced],
        "Late events",
        "A read had found the change before its event came.",
      ),
      part(
        "events_lost",
        [lost, expected],
        "Lost events",
        "A read found the change, and no event announced it within the grace period.",
      ),
      count(
        "events_awaited",
        waiting,
        "Awaited events",
        "A read found the change, and its event may still come.",
      ),
      count(
        "changes_not_announced",
        notAnnounced,
        "Changes without events",
        "Found by reads, to statuses that no event has ever announced.",
      ),
      count("claims_refuted", refuted, "Refuted claims", "Events whose content a later read contradicted."),
    ],
    notes: ["Delays are counted between fixed bounds, so a percentile is the bound that it does not exceed."],
  };
}

function judgeReads(figures: ProviderFigures): CardSection {
  const { requests, refused, clock, lateCommits, listed, breaches } = figures;
  const late = countAll(lateCommits);
  return {
    title: "Reads",
    lines: [
      count("requests_sent", requests, "Requests", "Sent by the mirror, for any purpose."),
      part(
        "requests_refused",
        [refused, requests],
        "Rate limits met",
        "Requests that were answered with 429.",
      ),
      {
        name: "clock",
        value: clock,
        title: "Provider's clock",
        text: clock ?? "not measured",
        meaning: "Against the mirror's own, as last measured; earlier values are not kept.",
      },
      part(
        "commits_late",
        [late, listed],
        "Late commits",
        "The list showed the change only after a read of its period had missed it.",
      ),
      ...([50, 99, 100] as const).map((percent) =>
        delay(
          `late_commit_p${percent}_seconds`,
          percent === 100 ? "Latest commit" : `Late commits, p${percent}`,
          {
            counts: lateCommits,
            percent,
            meaning: "Age of the change when the list first showed it.",
          },
        ),
      ),
      count(
        "proofs_withdrawn",
        breaches,
        "Withdrawn proofs",
        "A change was found that a complete and late enough read had not shown.",
      ),
    ],
    notes: [],
  };
}

/** What the estimate assumes and cannot say; part of every card. */
const ESTIMATE_NOTES = [
  "A step is an order that reaches a status which the provider announces by event. It counts as polled if a poll showed the order in this status. Single reads do not count, because events cause some of them.",
  "Chapman's estimator; 95 % interval of the profile likelihood. It assumes that events and polls are independent: a poll lists a period whether or not its events arrived. If one cause stops both, such as an outage of the mirror, the estimate is too low.",
  "It also assumes that every step has the same chance. Polls miss steps that end before the next poll; if the events of such short steps are lost more often than others, the estimate is too low.",
  "Polls list every period and read it again later, so they find the last state of every order that the provider lists: what neither saw are mainly earlier steps of orders that the mirror has.",
  "It says nothing about orders that the provider shows neither by event nor in its list, about statuses that it never announces, and about changes that leave the status as it is.",
];

const NOT_ENOUGH = "not enough data";

function judgeUnseen({ steps }: ProviderFigures): CardSection {
  const { first, second, both } = steps;
  const estimate = estimateUnseen(steps);
  return {
    title: "What neither events nor polls saw",
    lines: [
      count("steps_announced", first, "Announced steps", "Seen by event, also if polled."),
      count("steps_polled", second, "Polled steps", "Seen by a poll, also if announced."),
      count("steps_both", both, "Both", "Seen in both ways."),
      {
        name: "steps_unseen",
        value: estimate === undefined ? null : Number(estimate.unseen.toFixed(1)),
        title: "Seen by neither",
        text:
          estimate === undefined
            ? NOT_ENOUGH
            : `${estimate.unseen.toFixed(1)} (${estimate.low} to ${estimate.high})`,
        meaning: `Estimate, with its 95 % interval; needs ${COMMON_MIN} steps that were seen in both ways.`,
      },
      ...(["low", "high"] as const).map((end) => ({
        name: `steps_unseen_${end}`,
        value: estimate?.[end] ?? null,
        title: end === "low" ? "At least" : "At most",
        text: estimate === undefined ? NOT_ENOUGH : showCount(estimate[end]),
        meaning: `${end === "low" ? "Lower" : "Upper"} end of the interval.`,
      })),
    ],
    notes: ESTIMATE_NOTES,
  };
}

function count(name: string, value: number, title: string, meaning: string): CardLine {
  return { name, value, title, text: showCount(value), meaning };
}

function part(
  name: string,
  [value, of]: readonly [number, number],
  title: string,
  meaning: string,
): CardLine {
  const share = of === 0 ? "" : ` of ${showCount(of)} (${((100 * value) / of).toFixed(2)} %)`;
  return { name, value, title, text: `${showCount(value)}${share}`, meaning };
}

/** The last bound stands for any longer delay. */
const ANY_DELAY = 2_147_483_647;

function delay(
  name: string,
  title: string,
  { counts, percent, meaning }: { counts: readonly DelayCount[]; percent: number; meaning: string },
): CardLine {
  const line = { name, title, meaning };
  if (countAll(counts) === 0) return { ...line, value: null, text: "none" };
  const bound = quantile(counts, percent / 100, ({ upToSeconds }) => upToSeconds);
  if (bound === ANY_DELAY) return { ...line, value: null, text: "over 3,600 s" };
  return { ...line, value: bound, text: `at most ${showCount(bound)} s` };
}

function countAll(counts: readonly DelayCount[]): number {
  return counts.reduce((sum, { changes }) => sum + changes, 0);
}

function showCount(value: number): string {
  return value.toLocaleString("en-US");
}
