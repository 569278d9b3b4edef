import type { JobType, Queue } from "bullmq";
import { Router, type Express, type RequestHandler } from "express";
import { beginAction, endAction } from "../../database/auditLog.sql.ts";
import type { Pool } from "../../database/database.ts";
import { writePolicy } from "../../html/policy.ts";
import { mayAct, viewerOf } from "../page.ts";

// The dashboard of the queues is bull-board, at /ops/queues behind the login: its pages may load what they need from this
// host, viewers get a board without buttons, and every change is in the audit log. Start at `makeQueueDashboard`.

export const DASHBOARD_PATH = "/ops/queues";

/** Its styles are inline, and its data are in the page. It asks for fonts elsewhere, which browsers then refuse. */
const DASHBOARD_POLICY = writePolicy({
  "style-src": "'self' 'unsafe-inline'",
  "img-src": "'self' data:",
  "base-uri": "'self'",
});

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

/** The queues that the dashboard shows, whatever their jobs contain; read at each request, because queues come and go. */
export type ShownQueues = () => readonly Queue[];
