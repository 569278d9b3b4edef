import { Router } from "express";
import type { Request, RequestHandler } from "express";
import type { Pool } from "../../database/database.ts";
import { parseForm, readField, readForm } from "../html/requests.ts";
import { serveList } from "../lists/serveList.ts";
import { carryOut } from "../lists/carryOut.ts";
import { makeJobList } from "./jobsPage.ts";
import { askQueue } from "./queuedJobs.ts";
import type { JobQueue } from "./queuedJobs.ts";

/** The jobs of the queue, and for operators of all sources the retry of failed ones. */
export function makeJobRoutes(pool: Pool, queue: JobQueue): Router {
  const router = Router();
  router.get("/", serveList(pool, "/ops/queues", makeJobList(queue)));
  router.post("/retry", parseForm, retryFailed(pool, queue));
  return router;
}

/** Retries one failed job, or all. */
function retryFailed(pool: Pool, queue: JobQueue): RequestHandler {
  return async (request: Request, response) => {
    const jobId = readField(readForm(request)["job"]);
    const target = jobId === "" ? "all failed jobs" : `job ${jobId}`;
    const action = { action: "retry_jobs", sourceId: null, target };
    await carryOut(pool, response, action, () => (jobId === "" ? retryAll(queue) : retryOne(queue, jobId)));
  };
}

async function retryAll(queue: JobQueue): Promise<number> {
  const counts = await askQueue(queue.getJobCounts("failed"));
  await askQueue(queue.retryJobs({ state: "failed" }));
  return counts["failed"] ?? 0;
}

/** 0 if the job is gone, or somebody has retried it already. */
async function retryOne(queue: JobQueue, jobId: string): Promise<number> {
  const job = await askQueue(queue.getJob(jobId));
  if (job === undefined || job.finishedOn === undefined || job.failedReason === undefined) return 0;
  await askQueue(job.retry("failed"));
  return 1;
}
