import { formatInstant, NANOS_PER_SECOND } from "../../domain/order/instant.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { sourceQuery } from "../overview/phrases.ts";
import type { SpanKind } from "./coverage.ts";
import type { Bucket, Trend } from "./readTrends.ts";
import type { Range } from "./range.ts";

/** Width of a bucket and height of a plot, in the units of its drawing, which is stretched to the page. */
const WIDTH = 10;
const HEIGHT = 100;
const HUNDRED = 100;

/** A chart of one row of the page: all of them share the time axis. */
export interface Plot {
  /** Also the name of the table's column, or of its first one. */
  readonly title: string;
  readonly keys: readonly (readonly [className: string, words: string])[];
  /** What the top of the plot stands for, and its bottom. */
  readonly scale: readonly [top: string, bottom: string];
  readonly drawing: Html;
  /** Columns of the table that are read out for the bucket under the pointer. */
  readonly columns: readonly number[];
}

/** Bars on top of each other; each has a class, and values as shares of the height. */
function drawBars(layers: readonly (readonly [className: string, shares: readonly number[]])[]): Html {
  const floors: number[] = [];
  return html`${layers.map(([className, shares]) => {
    const bars = shares.map((share, index) => {
      const floor = floors[index] ?? 0;
      floors[index] = floor + share;
      if (share <= 0) return "";
      // Something is never drawn as nothing.
      const height = Math.max(2, share * HEIGHT);
      const top = round(HEIGHT - floor * HEIGHT - height);
      return `M${index * WIDTH + 1} ${top}h${WIDTH - 2}v${round(height)}h${2 - WIDTH}z`;
    });
    return html`<path class="${className}" d="${bars.join("")}" />`;
  })}`;
}

/** A line through the middles of the buckets, broken where there is no value. */
function drawLine(className: string, shares: readonly (number | null)[]): Html {
  let isOpen = false;
  const steps = shares.map((share, index) => {
    if (share === null) {
      isOpen = false;
      return "";
    }
    const step = `${isOpen ? "L" : "M"}${index * WIDTH + WIDTH / 2} ${round(HEIGHT - share * HEIGHT)}`;
    isOpen = true;
    // A value alone is a short line.
    return shares[index + 1] === undefined || shares[index + 1] === null ? `${step}h2` : step;
  });
  return html`<path class="line ${className}" d="${steps.join("")}" />`;
}

const round = (value: number) => Math.round(value * 10) / 10;

/** The next greater of 1, 2, 5, 10, 20, 50, …. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  return ([1, 2, 5, 10].find((step) => step * power >= value) ?? 10) * power;
}

interface Kind {
  /** In the plot's legend, and in the table. */
  readonly words: string;
  readonly cell: string;
  readonly height: number;
  /** The list of its spans. */
  readonly page?: string;
}

/** In the order of the legend. */
export const KINDS: Readonly<Record<SpanKind, Kind>> = {
  proved: { words: "proved", cell: "proved", height: 60, page: "walks" },
  gap: { words: "gap", cell: "gap", height: 100, page: "gaps" },
  breach: { words: "proof withdrawn", cell: "proof withdrawn", height: 100, page: "breaches" },
  open: { words: "too recent to be proved", cell: "not proved yet", height: 35 },
  before: { words: "before the history", cell: "before the history", height: 20 },
};

/** The history, with each span at its exact place; each leads to the list of its kind. */
export function plotCoverage({ sourceId, coverage, buckets }: Trend, { bucketSeconds }: Range): Plot {
  const first = BigInt(buckets[0]?.since ?? 0) * NANOS_PER_SECOND;
  const place = (at: bigint) => (Number(at - first) / Number(NANOS_PER_SECOND) / bucketSeconds) * WIDTH;
  const end = buckets.length * WIDTH;
  const spans = coverage.spans.map(({ kind, since, until }) => {
    const left = Math.min(place(since), end - 1);
    const width = Math.max(1, place(until) - left);
    const { height, page } = KINDS[kind];
    const rect = html`<rect
      class="${kind}"
      x="${round(left)}"
      y="${HEIGHT - height}"
      width="${round(width)}"
      height="${height}"
    />`;
    if (page === undefined) return rect;
    return html`<a href="/ops/${page}${sourceQuery(sourceId)}" tabindex="-1">${rect}</a>`;
  });
  const present = new Set<string>(coverage.spans.map(({ kind }) => kind));
  return {
    title: "Coverage",
    keys: Object.entries(KINDS).flatMap(([kind, { words }]) => (present.has(kind) ? [[kind, words]] : [])),
    scale: ["", ""],
    drawing: html`${spans}`,
    columns: [1],
  };
}

export function plotEvents(trend: Trend, range: Range): Plot {
  const { buckets } = trend;
  const top = roundUp(Math.max(...buckets.map(({ onTime, late, lost }) => onTime + late + lost)));
  const layer = (of: (bucket: Bucket) => number) => buckets.map((bucket) => of(bucket) / top);
  return {
    title: `Changes of status, per ${range.unit}`,
    keys: [
      ["proved", "webhook on time"],
      ["late", "late"],
      ["gap", "missed, found by polling"],
    ],
    scale: [top.toLocaleString("en-US"), "0"],
    drawing: html`${drawBars([
      ["proved", layer(({ onTime }) => onTime)],
      ["late", layer(({ late }) => late)],
      ["gap", layer(({ lost }) => lost)],
    ])}${linkBuckets(trend, ({ since }) => ordersAddress(trend.sourceId, since, range))}`,
    columns: [2, 3, 4],
  };
}

/** The share of lost events that counts as a problem; see OrderMirrorEventsLost. */
const LOSS_RATE_MAX = 0.01;

export function lossShare({ onTime, late, lost }: Bucket): number | null {
  const due = onTime + late + lost;
  return due === 0 ? null : lost / due;
}

export function plotLosses(trend: Trend): Plot {
  const shares = trend.buckets.map((bucket) => lossShare(bucket) ?? 0);
  const top = Math.min(HUNDRED, roundUp(Math.max(2, ...shares.map((share) => share * HUNDRED)))) / HUNDRED;
  const limit = round(HEIGHT - (LOSS_RATE_MAX / top) * HEIGHT);
  return {
    title: "Missed webhooks, %",
    keys: [
      ["gap", "share of all changes"],
      ["limit", "1 %, a warning over a day"],
    ],
    scale: [`${round(top * HUNDRED)} %`, "0 %"],
    drawing: html`${drawBars([["gap", shares.map((share) => share / top)]])}
      <path class="line limit" d="M0 ${limit}H${trend.buckets.length * WIDTH}" />
      ${linkBuckets(trend, () => `/ops/lost${sourceQuery(trend.sourceId)}`)}`,
    columns: [5],
  };
}

const LAG_MIN = 0.1;
/** Longer delays are not distinguished. */
const LAG_MAX = 3_600;
/** What the top of the plot may stand for. */
const LAG_TOPS: readonly (readonly [seconds: number, words: string])[] = [
  [1, "1 s"],
  [10, "10 s"],
  [60, "1 min"],
  [600, "10 min"],
  [LAG_MAX, "1 h"],
];

export function plotLag(trend: Trend, range: Range): Plot {
  const { buckets } = trend;
  const values = buckets.flatMap(({ p50, p95, p99 }) => [p50, p95, p99].filter((lag) => lag !== null));
  const isOver = buckets.some(({ onTime, late, p99 }) => onTime + late > 0 && p99 === null);
  const greatest = isOver ? LAG_MAX : Math.max(0, ...values);
  const [top, words] = LAG_TOPS.find(([seconds]) => seconds >= greatest) ?? [LAG_MAX, "1 h"];
  const share = (lag: number | null, bucket: Bucket) => {
    if (bucket.onTime + bucket.late === 0) return null;
    const seconds = Math.min(top, Math.max(LAG_MIN, lag ?? LAG_MAX));
    return Math.log(seconds / LAG_MIN) / Math.log(top / LAG_MIN);
  };
  const line = (name: "p50" | "p95" | "p99") =>
    drawLine(
      name,
      buckets.map((bucket) => share(bucket[name], bucket)),
    );
  return {
    title: "From the change to the mirror, by webhook",
    keys: [
      ["p50", "p50"],
      ["p95", "p95"],
      ["p99", "p99"],
    ],
    scale: [isOver ? `over ${words}` : words, `${LAG_MIN * 1_000} ms`],
    drawing: html`${line("p99")}${line("p95")}${line("p50")}${linkBuckets(trend, ({ since }) => ordersAddress(trend.sourceId, since, range))}`,
    columns: [6, 7, 8],
  };
}

export function plotBudget(trend: Trend): Plot {
  const { buckets } = trend;
  return {
    title: "Use of our request rate, %",
    keys: [
      ["used", "order lists"],
      ["gap", "with refusals (429)"],
    ],
    scale: ["100 %", "0 %"],
    drawing: html`${drawBars([
      [
        "used",
        buckets.map(({ lists, allowed, refused }) => (refused > 0 ? 0 : Math.min(1, lists / allowed))),
      ],
      [
        "gap",
        buckets.map(({ lists, allowed, refused }) =>
          refused > 0 ? Math.min(1, Math.max(lists, refused) / allowed) : 0,
        ),
      ],
    ])}${linkBuckets(trend, () => `/ops/requests${sourceQuery(trend.sourceId)}`)}`,
    columns: [9, 10, 11],
  };
}

/** Invisible columns over the whole height. The table has the same links for the keyboard. */
function linkBuckets({ buckets }: Trend, addressOf: (bucket: Bucket) => string): Html {
  return html`${buckets.map(
    (bucket, index) =>
      html`<a href="${addressOf(bucket)}" tabindex="-1"
        ><rect class="hit" x="${index * WIDTH}" width="${WIDTH}" height="${HEIGHT}"
      /></a>`,
  )}`;
}

/** The orders that were last updated in a bucket. */
export function ordersAddress(sourceId: string, since: number, { bucketSeconds }: Range): string {
  const minute = (seconds: number) => new Date(seconds * 1_000).toISOString().slice(0, 16);
  return `/ops/orders${sourceQuery(sourceId)}&from=${minute(since)}&until=${minute(since + bucketSeconds)}`;
}

/** Lines at the marks of the time axis, behind the plots. */
export function drawGrid(buckets: readonly Bucket[], range: Range): Html {
  const lines = listTicks(buckets, range).map(({ place }) => `M${round(place * WIDTH)} 0v${HEIGHT}`);
  return html`<path class="grid" d="${lines.join("")}" />`;
}

const MARGIN = 0.04;

interface Tick {
  /** In buckets from the left. */
  readonly place: number;
  readonly at: string;
}

function listTicks(buckets: readonly Bucket[], { bucketSeconds, tickSeconds }: Range): Tick[] {
  const first = buckets[0]?.since ?? 0;
  const end = first + buckets.length * bucketSeconds;
  const ticks: Tick[] = [];
  for (let at = Math.ceil(first / tickSeconds) * tickSeconds; at < end; at += tickSeconds)
    ticks.push({ place: (at - first) / bucketSeconds, at: formatInstant(BigInt(at) * NANOS_PER_SECOND, 0) });
  return ticks;
}

/** The one time axis: text, which is not stretched with the plots. */
export function drawTimeAxis(buckets: readonly Bucket[], range: Range): Html {
  const isLong = range.tickSeconds >= 86_400;
  return html`<svg class="time-axis" aria-hidden="true">
    ${listTicks(buckets, range).map(({ place, at }) => {
      const share = place / buckets.length;
      // Next to the name of the zone there is no room.
      if (share < MARGIN) return "";
      const anchor = share > 1 - MARGIN ? "end" : "middle";
      const text = isLong ? at.slice(5, 10) : at.slice(11, 16);
      return html`<text x="${round(share * HUNDRED)}%" y="14" text-anchor="${anchor}" data-at="${at}"
        >${text}</text
      >`;
    })}
  </svg>`;
}
