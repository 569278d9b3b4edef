import type { RequestHandler, Response } from "express";
import { readLastDecisions } from "../../changes/changeTail.sql.ts";
import type { DecisionRow } from "../../changes/changeTail.sql.ts";
import type { Pool } from "../../database/database.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import { shareReading } from "../../runtime/lifecycle/shareReading.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";
import type { ReadOverview } from "./readOverview.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { renderState } from "./statePanel.ts";
import { fitsTail, parseTailFilter, renderTailLine } from "./tailLine.ts";
import type { TailFilter } from "./tailLine.ts";
import type { Sessions } from "../auth/sessions.ts";
import { refuse } from "../html/requests.ts";
import { viewerOf } from "../auth/viewer.ts";
import type { Viewer } from "../auth/viewer.ts";
import { renderTrends } from "./trends.ts";

/** The tail is made of this many latest decisions; if more arrive between two queries, only the newest are shown. */
export const TAIL_DECISIONS = 200;
/** A page starts with this many lines. */
const LINES_SHOWN = 40;
const LOOK_INTERVAL_MS = 1_000;
const LOOKS_PER_STATE = 5;
const LOOKS_PER_TREND = 60;
const STREAMS_MAX = 100;
/** Streams reserved for operators, so that viewers cannot block them. */
const OPERATOR_STREAMS = 20;
/** Per session, or per person or program without a session. */
const STREAMS_PER_SESSION_MAX = 20;
/** The unsent bytes that a slow client may hold in memory before it is disconnected. */
const UNSENT_BYTES_MAX = 1_000_000;
/** Streams end from time to time, so that access by proxy header or password is checked again. */
const STREAM_LOOKS_MAX = 600;

interface Listener {
  readonly response: Response;
  readonly filter: TailFilter;
  readonly viewer: Viewer;
  looks: number;
}

export interface OverviewUpdates {
  /** The initial lines of a page: the latest decisions that match, newest first. */
  begin(filter: TailFilter): Promise<Html[]>;
  /**
   * Server-sent events: `tail` for all lines at the start, `entry` for each further line, `state` for the figures,
   * `trends` for the hours. 429 if a session has too many streams, 503 if the process has.
   */
  readonly stream: RequestHandler;
}

export interface OverviewUpdatesDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly readOverview: ReadOverview;
  /** Aborted when the process starts to shut down: streams do not end on their own. */
  readonly signal: AbortSignal;
  /** A stream ends with its session. */
  readonly findOpenSessions: Sessions["findOpen"];
}

/**
 * One query per second and process while anyone listens, however many do.
 *
 * The latest decisions are read in full each time and compared by number. Numbers are drawn before they are committed,
 * so asking only for greater ones would miss the decisions of a slow transaction.
 */
export function makeOverviewUpdates(deps: OverviewUpdatesDeps): OverviewUpdates {
  const { pool, clock, signal } = deps;
  const listeners = new Set<Listener>();
  let looking = false;

  const recent = shareReading(
    () => readLastDecisions(pool, { sourceId: null, reference: null, limit: TAIL_DECISIONS }),
    { clock, holdMs: LOOK_INTERVAL_MS / 2 },
  );

  async function begin(filter: TailFilter): Promise<Html[]> {
    const fitting = (await recent()).filter((row) => fitsTail(filter, row));
    return fitting.toReversed().slice(0, LINES_SHOWN).map(renderTailLine);
  }

  async function look(): Promise<void> {
    if (looking) return;
    looking = true;
    await lookWhileHeard({ ...deps, listeners, recent });
    looking = false;
    for (const { response } of listeners) response.end();
    listeners.clear();
  }

  const stream: RequestHandler = async (request, response) => {
    const viewer = viewerOf(response);
    const status = refuseListener(listeners, viewer) ?? (signal.aborted ? 503 : undefined);
    if (status !== undefined)
      return refuse(response.set("Retry-After", "30"), status, "Too many open pages.");
    const listener = { response, filter: parseTailFilter(request.query), viewer, looks: 0 };
    listeners.add(listener);
    response.on("close", () => listeners.delete(listener));
    response.status(200).set({
      "Content-Type": "text/event-stream; charset=utf-8",
      "Cache-Control": "no-cache, no-transform",
      "X-Accel-Buffering": "no",
    });
    response.write("retry: 3000\n\n");
    void look();
    // The decisions since the page was rendered, or since it last listened.
    const lines = await begin(listener.filter).catch(() => []);
    send(listener, writeFrame("tail", html`${lines}`));
  };
  return { begin, stream };
}

/** The status for one listener too many; undefined while there is room. */
function refuseListener(listeners: ReadonlySet<Listener>, viewer: Viewer): number | undefined {
  const own = [...listeners].filter((each) => isSameListener(each.viewer, viewer)).length;
  if (own >= STREAMS_PER_SESSION_MAX) return 429;
  const room = viewer.role === "operator" ? STREAMS_MAX : STREAMS_MAX - OPERATOR_STREAMS;
  return listeners.size >= room ? 503 : undefined;
}

const isSameListener = (one: Viewer, other: Viewer) =>
  one.session === other.session && one.person === other.person && one.role === other.role;

/** Ends the streams whose sessions have ended. */
async function dismissLoggedOut({ listeners, findOpenSessions }: HeardDeps): Promise<void> {
  const sessions = [...listeners].flatMap(({ viewer: { session } }) => session ?? []);
  if (sessions.length === 0) return;
  const open = await findOpenSessions([...new Set(sessions)]);
  for (const { response, viewer } of listeners)
    if (viewer.session !== undefined && !open.has(viewer.session)) response.end();
}

type HeardDeps = OverviewUpdatesDeps & {
  readonly listeners: Set<Listener>;
  readonly recent: () => Promise<readonly DecisionRow[]>;
};

async function lookWhileHeard(deps: HeardDeps): Promise<void> {
  const { clock, logger, readOverview, signal, listeners, recent } = deps;
  let seen: ReadonlySet<bigint> | undefined;
  let failed = false;
  for (let count = 1; listeners.size > 0 && !signal.aborted; count += 1) {
    try {
      await dismissLoggedOut(deps);
      const rows = await recent();
      const known = seen ?? new Set(rows.map(({ historyId }) => historyId));
      const fresh = rows.filter(({ historyId }) => !known.has(historyId));
      tell(listeners, fresh);
      seen = new Set(rows.map(({ historyId }) => historyId));
      if (count % LOOKS_PER_STATE === 0) {
        const overview = await readOverview();
        sendAll(listeners, writeFrame("state", renderState(overview)));
        if (count % LOOKS_PER_TREND === 0) sendAll(listeners, writeFrame("trends", renderTrends(overview)));
      }
      failed = false;
    } catch (error) {
      if (!failed) logger.warn({ err: error }, "the overview cannot be updated; retrying");
      failed = true;
    }
    await clock.sleep(LOOK_INTERVAL_MS, signal).catch(() => undefined);
  }
}

function tell(listeners: ReadonlySet<Listener>, rows: readonly DecisionRow[]): void {
  const lines = rows.map((row) => ({ row, frame: writeFrame("entry", renderTailLine(row)) }));
  for (const listener of listeners) {
    const fitting = lines.filter(({ row }) => fitsTail(listener.filter, row)).map(({ frame }) => frame);
    if (fitting.length > 0) send(listener, fitting.join(""));
    listener.looks += 1;
    if (listener.looks > STREAM_LOOKS_MAX) listener.response.end();
  }
}

function sendAll(listeners: ReadonlySet<Listener>, chunk: string): void {
  for (const listener of listeners) send(listener, chunk);
}

function send({ response }: Listener, chunk: string): void {
  if (response.writableLength > UNSENT_BYTES_MAX) response.destroy();
  else if (!response.writableEnded) response.write(chunk);
}

function writeFrame(event: string, { markup }: Html): string {
  return `event: ${event}\ndata: ${markup.split(/\r\n|\r|\n/).join("\ndata: ")}\n\n`;
}
