import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { mayAct } from "../auth/viewer.ts";
import type { Viewer } from "../auth/viewer.ts";
import { renderAction } from "../../html/action.ts";
import { renderFacts } from "../../html/fieldList.ts";
import type { List, ListPage } from "../lists/list.ts";
import { describeCount, linkOrder } from "../overview/phrases.ts";
import { renderInstant } from "../../html/marks.ts";
import type { JobEvent } from "./jobEvents.sql.ts";
import { askQueue, JOB_STATES, readJobs } from "./queuedJobs.ts";
import type { JobQueue, JobState, ListedJob } from "./queuedJobs.ts";

const STATES: Readonly<Record<JobState, string>> = {
  failed: "Failed",
  active: "Running",
  waiting: "Waiting",
  delayed: "Waiting to retry",
  completed: "Done",
};

export function makeJobList(queue: JobQueue): List<ListedJob> {
  return {
    title: "Queue",
    section: "queues",
    note: "Jobs wake the workers; what is to be done is in the database. Events whose job has failed or vanished are found within seconds.",
    empty: "There is no such job now. Each job would be here with its events and orders.",
    ofSources: false,
    filters: {
      state: {
        label: "State",
        words: JOB_STATES,
        standard: "failed",
        describe: (state) => STATES[state as JobState],
      },
    },
    sorts: ["newest"],
    columns: [
      { title: "Job", show: ({ jobId }) => html`<span class="nowrap">${jobId}</span>` },
      { title: "Events and orders", show: renderEvents },
      { title: "Added", show: ({ addedAt }) => renderInstant(addedAt) },
      { title: "Last begun", show: ({ begunAt }) => renderInstant(begunAt) },
      { title: "Tried", kind: "number", show: ({ attempts }) => describeCount(attempts) },
      { title: "Last error", kind: "sentence", show: ({ failedReason }) => failedReason ?? "–" },
      { title: "Action", show: renderRetry },
    ],
    read: async (pool, query) => {
      const state = JOB_STATES.find((each) => each === query.chosen["state"]) ?? "failed";
      return readJobs(pool, queue, { ...query, state });
    },
    above: (page) => renderCounts(queue, page),
  };
}

function renderEvents({ events, more }: ListedJob): string | Html {
  if (events.length === 0) return "–";
  return html`${events.map(renderEvent)}${more !== 0 && html`<div class="dim">and ${describeCount(more)} more</div>`}`;
}

function renderEvent({ sourceId, eventId, reference }: JobEvent): Html {
  const order =
    reference === null ? html`<span class="dim">not decided yet</span>` : linkOrder({ sourceId, reference });
  return html`<div>
    <span class="nowrap">${eventId}</span> ${order} <span class="dim">${sourceId}</span>
  </div> `;
}

const RETRY = "/ops/queues/retry";

function renderRetry({ jobId, state }: ListedJob, viewer: Viewer): string | Html {
  if (state !== "failed" || !mayAct(viewer)) return "–";
  return renderAction(RETRY, "Retry", { sent: { job: jobId } });
}

/** How many jobs are in each state, with the way to them. */
async function renderCounts(queue: JobQueue, { viewer }: ListPage<ListedJob>): Promise<Html> {
  const counts = await askQueue(queue.getJobCounts(...JOB_STATES));
  const link = (state: JobState) =>
    html`<a href="/ops/queues?state=${state}">${describeCount(counts[state] ?? 0)}</a>`;
  const { failed = 0 } = counts;
  const all = `Retry ${describeCount(failed)} failed ${failed === 1 ? "job" : "jobs"}`;
  return html`${renderFacts(Object.fromEntries(JOB_STATES.map((state) => [STATES[state], link(state)])))}
  ${failed > 0 && mayAct(viewer) && renderAction(RETRY, all, { look: "row" })}`;
}
