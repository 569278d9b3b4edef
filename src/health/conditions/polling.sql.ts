import { queryInstants, type Pool } from "../../database/database.ts";
import { addSeconds, formatInstant, type Instant } from "../../domain/order/instant.ts";
import type { PollTrouble } from "../../domain/pollTrouble.ts";
import type { Mode } from "../../domain/source/orderSource.ts";
import { SOURCE_PAGE, type Rule } from "./condition.ts";

/** Polling of a source. */
export interface Polling {
  readonly sourceId: string;
  readonly mode: Mode;
  readonly baseUrl: string;
  /** The database's clock at the time of the reading. */
  readonly now: Instant;
  /** Time at which the source was first configured here. */
  readonly createdAt: Instant;
  /** Time at which a person paused polling; null if it is not paused. */
  readonly pausedAt: Instant | null;
  /** Time at which a person last ended a pause; null if there was none. */
  readonly resumedAt: Instant | null;
  /** The process that leads polling; null if none does. */
  readonly leader: string | null;
  /** Time at which the last leader ended, or a pause after that; null if a process leads. */
  readonly leaderlessSince: Instant | null;
  /** End of the last completely polled window: the cursor. */
  readonly polledThrough: Instant | null;
  readonly lastCycleEndedAt: Instant | null;
  /** End of the first of the current series of failed cycles; null if the last cycle succeeded. */
  readonly failingSince: Instant | null;
  /** Why the last cycle failed; null if it succeeded. */
  readonly lastError: string | null;
  readonly trouble: PollTrouble | null;
  /**
   * The last window that the provider's list could not serve, while it is not proved, and what it answered since when.
   */
  readonly unservedSince: Instant | null;
  readonly unservedUntil: Instant | null;
  readonly unservedAt: Instant | null;
  readonly unservedError: string | null;
  /** Seconds by which the provider's clock is ahead of the database's (positive) or behind; null while they agree. */
  readonly clockErrorSeconds: number | null;
  readonly clockWrongSince: Instant | null;
  /** Requests of the last 10 minutes that the provider answered with 429, and when the first was recorded. */
  readonly rateRefusals: number;
  readonly firstRateRefusalAt: Instant | null;
  /** POLL_MARGIN_SECONDS at the last cycle; null before the first. */
  readonly marginSeconds: number | null;
  /** POLL_INTERVAL_SECONDS at the last cycle; null before the first. */
  readonly intervalSeconds: number | null;
}

const RECENT_MINUTES = 10;

const POLLING = `
select s.source_id as "sourceId", s.mode, s.base_url as "baseUrl",
  mirror.nanos_of(clock_timestamp()) as now, mirror.nanos_of(s.created_at) as "createdAt",
  mirror.nanos_of(s.paused_at) as "pausedAt", mirror.nanos_of(s.resumed_at) as "resumedAt",
  case when led.expires_at > clock_timestamp() then led.holder end as leader,
  case when led.expires_at > clock_timestamp() then null
    else mirror.nanos_of(greatest(led.expires_at, s.created_at, s.resumed_at)) end as "leaderlessSince",
  poll.polled_through as "polledThrough", mirror.nanos_of(poll.last_cycle_ended_at) as "lastCycleEndedAt",
  mirror.nanos_of(poll.failing_since) as "failingSince", poll.last_error as "lastError", poll.trouble,
  poll.clock_error_seconds as "clockErrorSeconds", mirror.nanos_of(poll.clock_wrong_since) as "clockWrongSince",
  coalesce(rate.refused, 0) as "rateRefusals", mirror.nanos_of(rate.first_at) as "firstRateRefusalAt",
  unserved.since as "unservedSince", unserved.until as "unservedUntil", mirror.nanos_of(unserved.at) as "unservedAt",
  unserved.error as "unservedError", poll.margin_seconds as "marginSeconds", poll.interval_seconds as "intervalSeconds"
from mirror.sources s
left join mirror.poll_state poll using (source_id)
left join mirror.leases led on led.name = 'poll:' || s.source_id
cross join lateral (
  select sum(calls)::int as refused, min(minute) as first_at
  from mirror.calls r
  where r.source_id = s.source_id and outcome = 'refused' and minute > clock_timestamp() - interval '${RECENT_MINUTES} minutes'
) rate
left join lateral (
  select unserved_since as since, unserved_until as until, unserved_at as at, unserved_error as error
  where not exists (
    select from mirror.proved p
    where p.source_id = s.source_id and p.since <= unserved_since and p.until >= unserved_until)
) unserved on true
where $1::text is null or s.source_id = $1
order by s.source_id`;

export function readPolling(pool: Pool, sourceId: string | null): Promise<Polling[]> {
  return queryInstants<Polling>(pool, { name: "read-polling", text: POLLING }, [sourceId]);
}

/** Before the first poll has recorded its own. */
const STANDARD_INTERVAL_SECONDS = 30;
/** For the requests of a poll. */
const POLL_SECONDS = 10;

/** Computes how long so many polls take at most, in seconds: polling as configured explains nothing that is older. */
export const secondsOfPolls = (polls: number, { intervalSeconds }: Pick<Polling, "intervalSeconds">) =>
  polls * (intervalSeconds ?? STANDARD_INTERVAL_SECONDS) + POLL_SECONDS;

/** Fewer may only mean that the provider once counted a window differently from us. */
const RATE_REFUSALS_MIN = 5;

export const later = (one: Instant, other: Instant) => (one > other ? one : other);
const endSentence = (text: string) => (/[.!?]$/.test(text) ? text : `${text}.`);

function describeOffset(seconds: number): string {
  const [size, place] = [Math.abs(seconds), seconds > 0 ? "ahead of" : "behind"];
  if (size < 600) return `${Math.round(size)} s ${place}`;
  return size < 48 * 3_600
    ? `${Math.round(size / 60)} min ${place}`
    : `${Math.round(size / 86_400)} days ${place}`;
}

const minutesBetween = (from: Instant, to: Instant) => Number((to - from) / 60_000_000_000n);

/** An instant of polling, or the end of a pause that came after it: meanwhile nothing was asked. */
const afterPause = ({ resumedAt }: Polling, at: Instant) => (resumedAt === null ? at : later(at, resumedAt));

type Words = Omit<Rule<Polling>, "area" | "page" | "holds" | "since" | "cause">;

/** Polls that fail for one kind of reason; the last error follows the sentence. */
function failing(
  troubles: readonly PollTrouble[],
  { sentence, ...words }: Words & { readonly sentence: (source: Polling) => string },
): Rule<Polling> {
  return {
    ...words,
    area: "poller",
    page: SOURCE_PAGE,
    holds: ({ trouble, pausedAt }) => trouble !== null && troubles.includes(trouble) && pausedAt === null,
    since: (source) => source.failingSince && afterPause(source, source.failingSince),
    cause: (source) =>
      source.lastError === null ? sentence(source) : `${sentence(source)} ${endSentence(source.lastError)}`,
  };
}

/** Conditions of polling. */
export const POLLING_CONDITIONS: readonly Rule<Polling>[] = [
  {
    name: "OrderMirrorNoLeader",
    severity: "critical",
    area: "poller",
    place: "On our side",
    answer: "No poller",
    measures: "no poller leads, so nothing is polled",
    forSeconds: 120,
    noticedAfterSeconds: 15,
    remedy:
      "Start `order-mirror poller`; until then lost events are not repaired. Or, if the source is out of use, pause it with `order-mirror source pause SOURCE`.",
    page: SOURCE_PAGE,
    holds: ({ leaderlessSince, pausedAt }) => leaderlessSince !== null && pausedAt === null,
    since: ({ leaderlessSince }) => leaderlessSince,
    cause: ({ sourceId }) => `No poller runs for ${sourceId}.`,
    fix: ({ sourceId }) =>
      `Start \`order-mirror poller\`; until then lost events are not repaired. Or, if ${sourceId} is out of use, pause it with \`order-mirror source pause ${sourceId}\`.`,
  },
  {
    name: "OrderMirrorNotPolled",
    severity: "critical",
    area: "poller",
    place: "On our side",
    answer: "Poller hangs",
    measures: "no poll has ended for 5 minutes after one was due, although a poller leads",
    forSeconds: 300,
    noticedAfterSeconds: 150,
    remedy: "Restart the poller; its log says what it waits for.",
    page: SOURCE_PAGE,
    holds: ({ leader, pausedAt }) => leader !== null && pausedAt === null,
    // No poll was due in a pause. That nobody led is no excuse: of pollers that die in turn, none ends a poll.
    since: (source) =>
      addSeconds(afterPause(source, source.lastCycleEndedAt ?? source.createdAt), secondsOfPolls(1, source)),
    cause: ({ sourceId, leader, lastCycleEndedAt, now, lastError }) => {
      const ended = lastCycleEndedAt === null ? "yet" : `for ${minutesBetween(lastCycleEndedAt, now)} min`;
      const reason = lastError === null ? "it still reads, or hangs" : `last: ${endSentence(lastError)}`;
      return `No poll of ${sourceId} has ended ${ended}, although ${leader} leads: ${reason}`;
    },
  },
  {
    name: "OrderMirrorPaused",
    severity: "warning",
    area: "poller",
    place: "On our side",
    answer: "Paused",
    measures: "a person paused polling",
    remedy: "Resume with `order-mirror source resume SOURCE`; events are received meanwhile.",
    page: SOURCE_PAGE,
    button: "resume",
    holds: ({ pausedAt }) => pausedAt !== null,
    since: ({ pausedAt }) => pausedAt,
    cause: ({ sourceId }) => `Polling of ${sourceId} is paused.`,
    fix: ({ sourceId }) =>
      `Resume with \`order-mirror source resume ${sourceId}\`; events are received meanwhile.`,
  },
  failing(["key_refused"], {
    name: "OrderMirrorKeyRefused",
    severity: "critical",
    place: "Between us and the provider",
    answer: "Key refused",
    measures: "the provider refuses the API key",
    forSeconds: 60,
    noticedAfterSeconds: 0,
    remedy: "Put the key from the provider's dashboard into the configuration and restart the poller.",
    sentence: ({ sourceId }) => `The provider refuses the API key of ${sourceId}.`,
  }),
  failing(["away", "slow"], {
    name: "OrderMirrorProviderAway",
    severity: "warning",
    place: "At the provider, or on the way to it",
    answer: "Provider away",
    measures: "the provider cannot be reached, or answers 5xx, unreadably, or not in time",
    forSeconds: 600,
    noticedAfterSeconds: 0,
    remedy: "Check the provider's status page and wait; polling resumes where it left off.",
    sentence: ({ sourceId, baseUrl }) =>
      `Polls of ${sourceId} get no usable answer from the provider (${baseUrl}).`,
  }),
  {
    name: "OrderMirrorRateLimited",
    severity: "warning",
    area: "poller",
    place: "Between us and the provider",
    answer: "Rate used up",
    measures: "the provider keeps answering 429",
    forSeconds: 60,
    noticedAfterSeconds: 0,
    remedy:
      "Find the other program that uses the organization's keys, which share the limit. Or lower RATE_SHARE_PERCENT.",
    page: "/ops/calls?kind=request",
    holds: ({ trouble, rateRefusals, pausedAt }) =>
      pausedAt === null && (trouble === "rate_limited" || rateRefusals >= RATE_REFUSALS_MIN),
    since: (source) => {
      const since = source.trouble === "rate_limited" ? source.failingSince : source.firstRateRefusalAt;
      return since && afterPause(source, since);
    },
    // The last error names what is waited for, and until when.
    cause: ({ sourceId, trouble, lastError }) => {
      const sentence = `The provider keeps answering 429 for ${sourceId}: another program uses up its rate, or the limit is lower than documented.`;
      const waits = trouble === "rate_limited" && lastError !== null;
      return waits ? `${sentence} Last: ${endSentence(lastError)}` : sentence;
    },
  },
  failing(["other"], {
    name: "OrderMirrorPollFailing",
    severity: "warning",
    place: "Between us and the provider",
    answer: "Polls fail",
    measures: "polls fail",
    forSeconds: 600,
    noticedAfterSeconds: 0,
    remedy: "`order-mirror doctor` tests the key and the provider; the poller's log has the whole error.",
    sentence: ({ sourceId }) => `Polls of ${sourceId} fail.`,
  }),
  {
    name: "OrderMirrorWindowUnserved",
    severity: "warning",
    area: "coverage",
    place: "At the provider, or on the way to it",
    answer: "Period unreadable",
    measures: "the provider's list cannot serve a period, which stays unproved",
    forSeconds: 600,
    noticedAfterSeconds: 0,
    remedy:
      "Show the provider the period and its answer: an order of it breaks every page. Everything else is read, and the period is tried again every ten minutes.",
    page: SOURCE_PAGE,
    holds: ({ unservedAt, pausedAt }) => unservedAt !== null && pausedAt === null,
    since: ({ unservedAt }) => unservedAt,
    cause: ({ sourceId, unservedSince, unservedUntil, unservedError }) => {
      const [since, until] = [unservedSince, unservedUntil].map((one) => formatInstant(one ?? 0n));
      return `The provider cannot list the orders of ${sourceId} changed from ${since} to ${until}: ${endSentence(unservedError ?? "unknown")}`;
    },
  },
  {
    name: "OrderMirrorClocksDisagree",
    severity: "critical",
    area: "coverage",
    place: "Between us and the provider",
    answer: "Clocks disagree",
    measures: "the provider's clock and the database's differ by more than a minute, so nothing is proved",
    noticedAfterSeconds: 0,
    remedy:
      "Compare both with a third clock: run a time service on the database's machine, or tell the provider that its Date header is wrong. Nothing is lost, and proofs go on when the clocks agree.",
    page: SOURCE_PAGE,
    holds: ({ clockErrorSeconds, pausedAt }) => clockErrorSeconds !== null && pausedAt === null,
    since: ({ clockWrongSince }) => clockWrongSince,
    cause: ({ sourceId, clockErrorSeconds }) =>
      `The provider's clock of ${sourceId} is ${describeOffset(clockErrorSeconds ?? 0)} the database's; nothing is verified meanwhile.`,
  },
];
