import type { Queue } from "bullmq";
import { Router } from "express";
import { z } from "zod";
import type { Pool } from "../../database/database.ts";
import { describeAge, describeDelay } from "../../domain/duration.ts";
import { html, type Html } from "../../html/html.ts";
import { numberColumn, renderAlert, renderFacts, renderTable } from "../../html/parts.ts";
import { sendRefusal, sendPage } from "../page.ts";
import { describeCount, linkEvent, linkOrder } from "../phrases.ts";
import { askQueue, AWAY, DASHBOARD_PATH } from "./queueBoard.ts";
import { readEventFlow, readEventsAt, type EventFlow, type JobEvent } from "./queueEvents.sql.ts";

// The page /ops/queue-health shows what the dashboard of the queues lacks: how events fare, who works on what, and the
// events of a job. Start at `makeQueueHealth`.

/** More of a job are counted only. */
const EVENTS_SHOWN_MAX = 200;
const ACTIVE_MAX = 1_000;

const contentSchema = z.object({ seqs: z.array(z.int().positive()) });
const readSeqs = (job: { data: unknown } | undefined) => contentSchema.safeParse(job?.data).data?.seqs ?? [];
const jobAddress = (queue: string, jobId: string | undefined) =>
  `${DASHBOARD_PATH}/queue/${encodeURIComponent(queue)}/${encodeURIComponent(jobId ?? "")}`;

/** Serves what the dashboard lacks: how events fare, who works on what, and the events and orders of a job. */
export function makeQueueHealth({ pool, queue }: { pool: Pool; queue: Queue }): Router {
  const router = Router();
  router.get("/", async (_request, response) => {
    const title = `Workers of ${queue.name}`;
    const workers = readWorkers(queue).then(
      (found) => renderWorkers(title, found),
      () => html`<p>${renderAlert(AWAY)}</p>`,
    );
    const body = html`${renderFlow(await readEventFlow(pool))}
      <h2>${title}</h2>
      ${await workers}`;
    sendPage(response, { title: "Queue", body, section: "queues" });
  });
  router.get("/:queue/:job", async (request, response) => {
    const isKnown = request.params.queue === queue.name;
    const job = isKnown && (await askQueue(queue.getJob(request.params.job)));
    if (!job) return sendRefusal(response, 404, "There is no such job any more.");
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

/** Finds each worker, with the number of jobs that it works on. Throws UnavailableError. */
async function readWorkers(queue: Queue): Promise<ReadonlyMap<string, number>> {
  const [found, active] = await askQueue(Promise.all([queue.getWorkers(), queue.getActive(0, ACTIVE_MAX)]));
  const workers = new Map<string, number>();
  // A connection is named by its queue and its worker.
  for (const { rawname = "" } of found) workers.set(rawname.split(":w:")[1] ?? rawname, 0);
  for (const { processedBy = "unknown" } of active)
    workers.set(processedBy, (workers.get(processedBy) ?? 0) + 1);
  return workers;
}

function renderWorkers(title: string, workers: ReadonlyMap<string, number>): Html {
  if (workers.size === 0) return html`<p>${renderAlert("No worker is alive.")}</p>`;
  const rows = [...workers].map(([name, jobs]) => [name, describeCount(jobs)]);
  return renderTable({ title, columns: ["Worker", numberColumn("Jobs that it works on")], rows });
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
