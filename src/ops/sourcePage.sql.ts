import { Router } from "express";
import type { Pool } from "../database/database.ts";
import { formatInstant, NANOS_PER_SECOND } from "../domain/order/instant.ts";
import { readStandings, type Standing } from "../health/conditions/standing.ts";
import {
  numberColumn,
  renderAlert,
  renderFacts,
  renderInstant,
  renderMinute,
  renderTable,
} from "../html/parts.ts";
import { html, type Html } from "../html/html.ts";
import { readSource, type StoredSource } from "../sources/sources.sql.ts";
import { renderRemedyButton } from "./actions.sql.ts";
import { readField, refuse, sendPage, viewerOf, type Page, type Viewer } from "./page.ts";
import {
  describeBoundedCount,
  describeCount,
  describeDelay,
  describeSpan,
  renderFreshness,
  sourceQuery,
} from "./phrases.ts";

interface SourcePage {
  readonly standing: Standing;
  readonly source: StoredSource;
  readonly buckets: readonly Bucket[];
  readonly range: Range;
  readonly viewer: Viewer;
}

/** What is known of one source. */
export function makeSourceRoutes(pool: Pool): Router {
  const router = Router();
  router.get("/sources/:sourceId", async ({ params, query }, response) => {
    const sourceId = readField(params.sourceId);
    const [standing] = await readStandings(pool, sourceId);
    const source = await readSource(pool, sourceId);
    if (standing === undefined || source === undefined)
      return refuse(response, 404, "There is no source of that name.");
    const range = parseRange(query["range"]);
    const page = {
      standing,
      source,
      buckets: await readTrend(pool, { standing, range }),
      range,
      viewer: viewerOf(response),
    };
    sendPage(response, renderSource(page));
  });
  return router;
}

function renderSource(page: SourcePage): Page {
  const { standing, source, buckets, range, viewer } = page;
  const { sourceId, mode } = standing;
  const body = html`<h1>${sourceId} <span class="badge">${mode}</span></h1>
    <div id="source" data-live>
      ${renderFreshness([standing])} ${renderStanding(page)}
      <h2>Polling</h2>
      <p>While polling is paused, webhooks are still applied. The poller later reads what it has missed.</p>
      ${renderRemedyButton(standing.pausedAt === null ? "pause" : "resume", sourceId, viewer)}
      ${standing.oldestGap !== null && renderRemedyButton("gap", sourceId, viewer)}
    </div>
    <h2 id="trends">Trends <span class="dim">last ${range.title}, per ${range.unit}</span></h2>
    ${renderTrend(sourceId, buckets, range)}
    <h2>Provider</h2>
    ${renderProvider(standing, source)}
    <h2>More of ${sourceId}</h2>
    <ul>
      ${Object.entries(MORE).map(([path, name]) => html`<li><a href="/ops/${path}${sourceQuery(sourceId)}">${name}</a></li> `)}
    </ul>`;
  return { title: `Source ${sourceId}`, body, section: "overview", live: true, hasCharts: true };
}

const MORE = {
  tasks: "Backfills and verifications",
  walks: "Reads from the provider",
  calls: "Calls by minute",
  lost: "Lost events",
  actions: "Audit log",
};

/** Every figure with the list behind it. */
function renderStanding({ standing }: SourcePage): Html {
  const { sourceId, safeThrough, polledThrough, historySince, lastCycleEndedAt, lastError } = standing;
  const { marginSeconds } = standing;
  const { gaps, breaches, exceptions, quarantined, pending, refetches, lastEventAt, lost, announced } =
    standing;
  const query = sourceQuery(sourceId);
  const link = (page: string, count: number) =>
    html`<a href="/ops/${page}${query}">${describeBoundedCount(count)}</a>`;
  return renderFacts({
    Polling: describePolling(standing),
    "Complete up to": html`<a href="/ops/walks${query}">${renderInstant(safeThrough)}</a>`,
    "Exceptions to that": exceptions === 0 ? "0" : renderAlert(link("quarantine", exceptions)),
    "Proofs withdrawn": link("breaches", breaches),
    Gaps: link("gaps", gaps),
    "History from": renderInstant(historySince),
    "Polled up to": renderInstant(polledThrough),
    "Last poll ended": renderInstant(lastCycleEndedAt),
    "Last poll": lastError === null ? "no error" : renderAlert(lastError),
    Poller: standing.leader ?? "none",
    "Polls trail the present by": marginSeconds === null ? "–" : describeSpan(marginSeconds),
    "Last event": renderInstant(lastEventAt),
    "Missed webhooks, 24 h": html`${link("lost", lost)} of ${describeCount(lost + announced)}`,
    "Events waiting": link("waiting", pending),
    "Re-reads waiting": link("refetches", refetches),
    "In quarantine": link("quarantine", quarantined),
  });
}

function renderProvider({ baseUrl, createdAt }: Standing, { provider, refusedBranches }: StoredSource): Html {
  return renderFacts({
    Address: html`<span class="mono">${baseUrl}</span>`,
    Identity: html`<span class="mono">${provider ?? "not recorded"}</span>`,
    "Configured here since": renderMinute(createdAt),
    Key:
      refusedBranches === null
        ? "matches"
        : renderAlert(`of another organization, with the branches ${refusedBranches}`),
  });
}

function describePolling({ pausedAt, lastError, leader }: Standing): Html | string {
  if (pausedAt !== null) return html`paused since ${renderMinute(pausedAt)}`;
  if (leader === null) return renderAlert("no poller is running");
  return lastError === null ? "running" : renderAlert("failing");
}

// The trends of a source: one statement reads a range in buckets, a table shows them, and `assets/charts.js` draws the
// charts from the table. Start at `readTrend`.

/** A period of charts up to now, in buckets of equal length, which begin at whole multiples of it in UTC. */
export interface Range {
  readonly name: string;
  readonly title: string;
  /** Length of a bucket as people say it. */
  readonly unit: string;
  readonly bucketSeconds: number;
  readonly buckets: number;
}

const HOUR = 3_600;

/** The choices, the shortest first. Webhooks are counted by the hour, so no bucket is shorter. */
const RANGES: readonly [Range, ...Range[]] = [
  { name: "24h", title: "24 h", buckets: 24, bucketSeconds: HOUR, unit: "hour" },
  { name: "7d", title: "7 d", buckets: 28, bucketSeconds: 6 * HOUR, unit: "6 h" },
  { name: "30d", title: "30 d", buckets: 30, bucketSeconds: 24 * HOUR, unit: "day" },
];

/** The range that an address names; 24 h without a known one. @internal */
export function parseRange(name: unknown): Range {
  return RANGES.find((each) => each.name === name) ?? RANGES[0];
}

/** What is known of a bucket's time. */
const KINDS = {
  before: "before the history",
  /** The mirror has every change of this time. */
  proved: "proved",
  /** Too recent to be proved. */
  open: "too recent",
  /** Unproved, but later time is proved, so changes may be missing. */
  gap: "gap",
  /** A proof of this time was withdrawn, whether or not it has been proved again. */
  breach: "proof withdrawn",
} as const;

/** One bucket of a source. Delays are percentiles of the time from the change to the decision, in seconds. */
export interface Bucket {
  /** Seconds since 1970. */
  readonly since: number;
  readonly coverage: keyof typeof KINDS;
  /** Changes of status that an event announced. */
  readonly onTime: number;
  /** After a read had found the change. */
  readonly late: number;
  readonly lost: number;
  /** Null: no event, or longer than the longest that is distinguished; else the next greater delay that is. */
  readonly p50: number | null;
  readonly p95: number | null;
}

const BUCKET_OF = (at: string) => `floor((extract(epoch from ${at}) - $2::float8) / $3::float8)::int`;
const within = (share: number) =>
  `nullif(min(up_to_seconds) filter (where until_here >= ${share} * total), 2147483647)`;

const TREND = `
  with times as (
    select n, ($2::float8 + n * $3)::bigint as since,
      int8range(($2::bigint + n * $3::bigint) * 1000000000, ($2::bigint + (n + 1) * $3::bigint) * 1000000000) as span
    from generate_series(0, $4::int - 1) n
  ), counted as (
    select ${BUCKET_OF("hour")} as n, outcome, up_to_seconds, sum(changes) as changes
    from mirror.webhook_hours where source_id = $1 and hour >= to_timestamp($2::float8) group by 1, 2, 3
  ), ranked as (
    select *, sum(changes) over (partition by n) as total,
      sum(changes) over (partition by n order by up_to_seconds) as until_here
    from counted where outcome <> 'lost'
  ), delays as (
    select n, ${within(0.5)} as p50, ${within(0.95)} as p95 from ranked group by n
  ), outcomes as (
    select n, sum(changes) filter (where outcome not in ('late', 'lost')) as on_time,
      sum(changes) filter (where outcome = 'late') as late, sum(changes) filter (where outcome = 'lost') as lost
    from counted group by n
  ), proved as (
    select coalesce(range_agg(int8range(since, until)), '{}') as spans from mirror.proved where source_id = $1
  )
  select since::float8 as since,
    case
      when exists (select from mirror.coverage_breaches b where b.source_id = $1
        and b.found_at > to_timestamp($2::float8) and int8range(b.since, b.until) && span) then 'breach'
      when not spans @> (span * int8range($5::bigint, $6::bigint)) then 'gap'
      when upper(span) <= $5::bigint then 'before'
      when upper(span) <= $6::bigint then 'proved'
      else 'open'
    end as coverage,
    coalesce(on_time, 0)::float8 as "onTime", coalesce(late, 0)::float8 as late, coalesce(lost, 0)::float8 as lost,
    p50, p95
  from times left join outcomes using (n) left join delays using (n), proved
  order by n`;

/** The buckets of a range up to now, oldest first; those without anything are there, too. @internal */
export async function readTrend(
  pool: Pool,
  { standing, range }: { standing: Standing; range: Range },
): Promise<Bucket[]> {
  const { sourceId, now, historySince, provedUntil } = standing;
  const { bucketSeconds, buckets } = range;
  const end = (Math.floor(Number(now / NANOS_PER_SECOND) / bucketSeconds) + 1) * bucketSeconds;
  const begin = historySince ?? now;
  const history = [begin, provedUntil !== null && provedUntil > begin ? provedUntil : begin];
  const { rows } = await pool.query<Bucket>(TREND, [
    sourceId,
    end - buckets * bucketSeconds,
    bucketSeconds,
    buckets,
    ...history.map(String),
  ]);
  return rows;
}

interface Column {
  readonly title: string;
  /** What the chart draws; null: nothing. */
  readonly value: (bucket: Bucket) => number | null;
  readonly show: (bucket: Bucket) => string;
}

const delay = (title: string, value: Column["value"]): Column => ({
  title,
  value,
  show: (bucket) => {
    const seconds = value(bucket);
    if (bucket.onTime + bucket.late === 0) return "–";
    return seconds === null ? "over 1 h" : describeDelay(seconds);
  },
});

const count = (title: string, value: (bucket: Bucket) => number): Column => ({
  title,
  value,
  show: (bucket) => describeCount(value(bucket)),
});

/** The figures of a bucket, after its time and coverage. */
const COLUMNS = {
  onTime: count("On time", ({ onTime }) => onTime),
  late: count("Late", ({ late }) => late),
  lost: count("Missed", ({ lost }) => lost),
  p50: delay("p50", ({ p50 }) => p50),
  p95: delay("p95", ({ p95 }) => p95),
} satisfies Readonly<Record<string, Column>>;

/** What `assets/charts.js` draws from the table: the columns of each chart, and how. */
const CHARTS: readonly (readonly [title: string, kind: string, ...columns: (keyof typeof COLUMNS)[]])[] = [
  ["Coverage", "coverage"],
  ["Changes of status", "bars", "onTime", "late", "lost"],
  ["Seconds from the change to the mirror", "lines", "p50", "p95"],
];

/** The choice of the range, and places for the charts; without the script the table is open. */
function renderTrend(sourceId: string, buckets: readonly Bucket[], range: Range): Html {
  const names = Object.keys(COLUMNS);
  return html`<nav class="views" aria-label="Period of the charts">
      <ul>
        ${RANGES.map(
          ({ name, title }) =>
            html`<li>
              <a href="?range=${name}#trends" ${name === range.name && html`aria-current="true"`}>${title}</a>
            </li> `,
        )}
      </ul>
    </nav>
    <div id="charts" hidden>
      ${CHARTS.map(
        ([title, kind, ...columns]) =>
          html`<figure
            data-kind="${kind}"
            data-columns="${columns.map((name) => names.indexOf(name) + 2).join(" ")}"
          >
            <figcaption>${title}${kind === "bars" && html`, per ${range.unit}`}</figcaption>
          </figure> `,
      )}
    </div>
    <details id="figures" open>
      <summary>The figures per ${range.unit}</summary>
      <div id="figures-table" data-live>${renderFigures(sourceId, buckets, range)}</div>
    </details>`;
}

function renderFigures(sourceId: string, buckets: readonly Bucket[], { unit, bucketSeconds }: Range): Html {
  const columns: readonly Column[] = Object.values(COLUMNS);
  const at = (seconds: number) => formatInstant(BigInt(seconds) * NANOS_PER_SECOND, 0);
  return renderTable({
    title: `Figures per ${unit}`,
    columns: ["From", "Coverage", ...columns.map(({ title }) => numberColumn(title))],
    rows: buckets.map((bucket) => {
      const { since, coverage } = bucket;
      const period = `&from=${at(since).slice(0, 16)}&until=${at(since + bucketSeconds).slice(0, 16)}`;
      return [
        html`<a href="/ops/orders${sourceQuery(sourceId)}${period}"
          ><time datetime="${at(since)}">${at(since).slice(5, 16).replace("T", " ")}</time></a
        >`,
        html`<data value="${coverage}">${KINDS[coverage]}</data>`,
        ...columns.map(
          ({ value, show }) => html`<data value="${value(bucket) ?? ""}">${show(bucket)}</data>`,
        ),
      ];
    }),
  });
}
