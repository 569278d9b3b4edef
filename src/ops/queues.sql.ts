import type { JobType, Queue } from "bullmq";
import { Router, type Express, type RequestHandler } from "express";
import { z } from "zod";
import type { Pool } from "../database/database.ts";
import { UnavailableError } from "../domain/errors.ts";
import { numberColumn, renderAlert, renderFacts, renderTable } from "../html/parts.ts";
import { html, type Html } from "../html/html.ts";
import { withTimeout } from "../process/abort.ts";
import { beginAction, endAction } from "./actions.sql.ts";
import { writePolicy } from "../html/policy.ts";
import { mayAct, refuse, sendPage, viewerOf } from "./page.ts";
import { describeAge, describeCount, describeDelay, linkEvent, linkOrder } from "./phrases.ts";

// The dashboard of the queues is bull-board, at /ops/queues behind the login: its pages may load what they need from this
// host, viewers get a board without buttons, and every change is in the audit log. What it lacks is on /ops/queue-health:
// how events fare, and the events of a job. Start at `makeQueueDashboard` and `makeQueueHealth`.

const DASHBOARD_PATH = "/ops/queues";

/** Its styles are inline, and its data are in the page. It asks for fonts elsewhere, which browsers then refuse. */
const DASHBOARD_POLICY = writePolicy({
  "style-src": "'self' 'unsafe-inline'",
  "img-src": "'self' data:",
  "base-uri": "'self'",
});

/** The queues that the dashboard shows, whatever their jobs contain; read at each request, because queues come and go. */
export type ShownQueues = () => readonly Queue[];

/** Mount it at DASHBOARD_PATH, behind the login and the guard of writes. */
export function makeQueueDashboard({ pool, queues }: { pool: Pool; queues: ShownQueues }): Router {
  const router = Router();
  const boards = { acting: makeBoard(queues, false), reading: makeBoard(queues, true) };
  router.use(
    (_request, response, next) => {
      response.set("Content-Security-Policy", DASHBOARD_POLICY);
      next();
    },
    auditChanges(pool, queues),
  );
  router.use(async (request, response, next) => {
    const serve = await boards[mayAct(viewerOf(response)) ? "acting" : "reading"]();
    serve(request, response, next);
  });
  return router;
}

/** Loaded at the first visit, because most web processes are never asked for it. */
function makeBoard(queues: ShownQueues, readOnlyMode: boolean): () => Promise<RequestHandler> {
  let shown: readonly Queue[] = [];
  let opening: ReturnType<typeof openBoard> | undefined;
  return async () => {
    opening ??= openBoard(readOnlyMode);
    const board = await opening;
    const now = queues();
    if (now.length !== shown.length || now.some((queue, at) => queue !== shown[at])) board.show(now);
    shown = now;
    return board.serve;
  };
}

async function openBoard(readOnlyMode: boolean) {
  const { createBullBoard } = await import("@bull-board/api");
  const { BullMQAdapter } = await import("@bull-board/api/bullMQAdapter");
  const { ExpressAdapter } = await import("@bull-board/express");
  const serverAdapter = new ExpressAdapter().setBasePath(DASHBOARD_PATH);
  const links = [{ text: "Overview", url: "/ops" }];
  const { setQueues } = createBullBoard({
    queues: [],
    serverAdapter,
    options: { uiConfig: { boardTitle: "order-mirror", miscLinks: links } },
  });
  function adapt(queue: Queue) {
    const externalJobUrl = ({ id }: { id?: string | number | null | undefined }) => ({
      displayText: "Events and orders",
      href: `/ops/queue-health/${encodeURIComponent(queue.name)}/${encodeURIComponent(String(id))}`,
    });
    return new BullMQAdapter(queue, { readOnlyMode, externalJobUrl });
  }
  return {
    serve: (serverAdapter.getRouter() as Express).disable("x-powered-by"),
    show: (queues: readonly Queue[]) => setQueues(queues.map((queue) => adapt(queue))),
  };
}

/** Records each change before it is carried out: a job, or all jobs of a state, as the address names them. */
function auditChanges(pool: Pool, queues: ShownQueues): RequestHandler {
  return async (request, response, next) => {
    if (request.method === "GET" || request.method === "HEAD") return next();
    const target = request.path.replace(/^\/api\/queues\//, "").replaceAll("/", " ");
    const count = await countAffected(queues(), target).catch(() => 1);
    const action = { ...viewerOf(response), action: "queue", sourceId: null, target };
    const actionId = await beginAction(pool, action);
    response.once("finish", () => {
      const affected = response.statusCode < 300 ? count : 0;
      endAction(pool, { actionId, affected }).catch(() => undefined);
    });
    next();
  };
}

/** How many jobs a change is about: those of a state, or one; a queue that is paused counts as one, too. */
async function countAffected(queues: readonly Queue[], target: string): Promise<number> {
  const [, name, action, state] = /^(\S+) (retry|clean|promote)(?: (\w+))?$/.exec(target) ?? [];
  const queue = queues.find((each) => each.name === name);
  if (queue === undefined) return 1;
  return queue.getJobCountByTypes((action === "promote" ? "delayed" : state) as JobType);
}

/** A frozen server of a queue does not hold up the page. */
const ANSWER_MS = 3_000;
/** More of a job are counted only. */
const EVENTS_SHOWN_MAX = 200;
const ACTIVE_MAX = 1_000;
const AWAY = "The queue's server does not answer. Workers find events without it, some seconds later.";

/** A job in the dashboard is looked for among the newest. */
const JOBS_MAX = 1_000;
const KEPT_STATES = ["active", "waiting", "delayed", "failed", "completed"] as const;
const NO_JOB = "No job about this event is kept: those that succeeded are removed soon.";

const contentSchema = z.object({ seqs: z.array(z.int().positive()) });
const readSeqs = (job: { data: unknown } | undefined) => contentSchema.safeParse(job?.data).data?.seqs ?? [];
const jobAddress = (queue: string, jobId: string | undefined) =>
  `${DASHBOARD_PATH}/queue/${encodeURIComponent(queue)}/${encodeURIComponent(jobId ?? "")}`;

/** What the dashboard lacks: how events fare, who works on what, and the events and orders of a job. */
export function makeQueueHealth({ pool, queues }: { pool: Pool; queues: ShownQueues }): Router {
  const router = Router();
  router.get("/", async (_request, response) => {
    const works = Promise.all(queues().map(async (queue) => readWork(queue)));
    const [flow, work] = await Promise.all([readEventFlow(pool), works]);
    const body = html`${renderFlow(flow)} ${work.map(renderWork)}`;
    sendPage(response, { title: "Queue", body, section: "queues" });
  });
  router.get("/event/:seq", async ({ params }, response) => {
    for (const queue of queues()) {
      const jobs = await askQueue(queue.getJobs([...KEPT_STATES], 0, JOBS_MAX));
      const its = jobs.find((job) => readSeqs(job).includes(Number(params.seq)));
      if (its !== undefined) return response.redirect(303, jobAddress(queue.name, its.id));
    }
    const body = html`<h1>Job</h1>
      <p>${NO_JOB}</p>`;
    sendPage(response, { title: "Job", body, section: "queues" });
  });
  router.get("/:queue/:job", async (request, response) => {
    const queue = queues().find(({ name }) => name === request.params.queue);
    const job = queue && (await askQueue(queue.getJob(request.params.job)));
    if (!queue || !job) return refuse(response, 404, "There is no such job any more.");
    const seqs = readSeqs(job);
    const events = await readEventsAt(pool, seqs.slice(0, EVENTS_SHOWN_MAX));
    const shown = { queue: queue.name, jobId: job.id ?? "", events, more: seqs.length - events.length };
    sendPage(response, { title: "Job", body: renderJob(shown), section: "queues" });
  });
  return router;
}

function renderFlow({ p50Seconds, p95Seconds, oldestWaitingSeconds, eventsInHour }: EventFlow): Html {
  const time = (seconds: number | null) => (seconds === null ? "–" : describeDelay(seconds));
  return html`<h1>Queue</h1>
    <p>
      Losing a job loses no event: a worker finds the event in the database within seconds. The
      <a href="${DASHBOARD_PATH}">dashboard</a> shows each job, and what can be done with it.
    </p>
    ${renderFacts({
      "Oldest waiting event": oldestWaitingSeconds === null ? "none" : describeAge(oldestWaitingSeconds),
      "Events in the last hour": describeCount(eventsInHour),
      "From event to applied, half of them": time(p50Seconds),
      "From event to applied, 95 %": time(p95Seconds),
    })}`;
}

interface Work {
  readonly queue: string;
  /** Each worker with the number of jobs that it works on; null: the queue's server does not answer. */
  readonly workers: ReadonlyMap<string, number> | null;
}

async function readWork(queue: Queue): Promise<Work> {
  try {
    const asked = Promise.all([queue.getWorkers(), queue.getActive(0, ACTIVE_MAX)]);
    const [found, active] = await askQueue(asked);
    const workers = new Map<string, number>();
    // A connection is named by its queue and its worker.
    for (const { rawname = "" } of found) workers.set(rawname.split(":w:")[1] ?? rawname, 0);
    for (const { processedBy = "unknown" } of active)
      workers.set(processedBy, (workers.get(processedBy) ?? 0) + 1);
    return { queue: queue.name, workers };
  } catch {
    return { queue: queue.name, workers: null };
  }
}

function renderWork({ queue, workers }: Work): Html {
  const title = `Workers of ${queue}`;
  if (workers === null || workers.size === 0)
    return html`<h2>${title}</h2>
      <p>${renderAlert(workers === null ? AWAY : "No worker is alive.")}</p>`;
  const rows = [...workers].map(([name, jobs]) => [name, describeCount(jobs)]);
  const columns = ["Worker", numberColumn("Jobs that it works on")];
  return html`<h2>${title}</h2>
    ${renderTable({ title, columns, rows })}`;
}

function renderJob(job: { queue: string; jobId: string; events: readonly JobEvent[]; more: number }): Html {
  const { queue, jobId, events, more } = job;
  const rows = events.map(({ eventId, reference, sourceId }) => [
    linkEvent(sourceId, eventId),
    reference === null ? html`<span class="dim">not decided yet</span>` : linkOrder({ sourceId, reference }),
    sourceId,
  ]);
  return html`<h1>Job ${jobId}</h1>
    <p><a href="${jobAddress(queue, jobId)}">In the dashboard</a></p>
    ${events.length === 0 && html`<p>The job is about no event that is kept.</p>`}
    ${events.length > 0 && renderTable({ title: "Its events", columns: ["Event", "Order", "Source"], rows })}
    ${more > 0 && html`<p>And ${describeCount(more)} more.</p>`}`;
}

/** Waits for an answer of the queue's server. Throws UnavailableError. */
async function askQueue<Answer>(asked: Promise<Answer>): Promise<Answer> {
  const answer = await withTimeout(
    asked.catch((cause: unknown) => {
      throw new UnavailableError(AWAY, { cause });
    }),
    ANSWER_MS,
  );
  if (answer === "late") throw new UnavailableError(AWAY);
  return answer;
}

/** How the events of the last hour fared, whatever the queue says. */
interface EventFlow {
  /** Null: no event waits for its decision. */
  readonly oldestWaitingSeconds: number | null;
  readonly eventsInHour: number;
  /** From the commit of an event to the decision on it, of the newest events; null: there were none. */
  readonly p50Seconds: number | null;
  readonly p95Seconds: number | null;
}

/** The newest events that the times are taken from: exact enough, and quick however many there are. */
const EVENTS_TIMED_MAX = 2_000;

async function readEventFlow(pool: Pool): Promise<EventFlow> {
  const { rows } = await pool.query<EventFlow>(`
    with newest as (
      select * from (
        select seq, source_id, received_at from mirror.inbox order by seq desc limit ${EVENTS_TIMED_MAX}
      ) latest where received_at > clock_timestamp() - interval '1 hour'
    ), timed as (
      select percentile_cont(array[0.5, 0.95]) within group (
        order by greatest(0, extract(epoch from h.seen_at - n.received_at))::float8) as lags
      from newest n cross join lateral (
        select min(seen_at) as seen_at from mirror.history
        where inbox_seq = n.seq and source_id = n.source_id
      ) h where h.seen_at is not null
    )
    select
      (select extract(epoch from clock_timestamp() - min(received_at))::float8 from mirror.pending)
        as "oldestWaitingSeconds",
      -- Counted at the address, because the newest events above are not all of a busy hour.
      (select greatest((select count(*) from newest), coalesce(sum(calls), 0))::float8 from mirror.calls
       where kind = 'webhook' and outcome = 'accepted' and minute > clock_timestamp() - interval '1 hour') as "eventsInHour",
      lags[1] as "p50Seconds", lags[2] as "p95Seconds"
    from timed`);
  return rows[0] ?? { oldestWaitingSeconds: null, eventsInHour: 0, p50Seconds: null, p95Seconds: null };
}

/** A received event that a job is about. */
interface JobEvent {
  readonly sourceId: string;
  readonly eventId: string;
  /** Null while it is not known: the event is not decided, or names no order. */
  readonly reference: string | null;
}

/** The received events at inbox positions, by position. @internal */
export async function readEventsAt(pool: Pool, seqs: readonly number[]): Promise<JobEvent[]> {
  const { rows } = await pool.query<JobEvent>(
    `select i.source_id as "sourceId", i.event_id as "eventId",
       (select h.reference from mirror.history h where h.inbox_seq = i.seq limit 1) as reference
     from mirror.inbox i where i.seq = any($1::bigint[]) order by i.seq`,
    [seqs],
  );
  return rows;
}
