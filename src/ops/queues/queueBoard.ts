import type { ExpressAdapter } from "@bull-board/express";
import type { JobType, Queue } from "bullmq";
import {
  Router,
  type Express,
  type NextFunction,
  type Request,
  type RequestHandler,
  type Response,
} from "express";
import { beginAction, endAction } from "../../database/auditLog.sql.ts";
import type { Pool } from "../../database/database.ts";
import { UnavailableError } from "../../domain/errors.ts";
import { html } from "../../html/html.ts";
import { writePolicy } from "../../html/policy.ts";
import { withTimeout } from "../../process/abort.ts";
import { basePathOf, mayAct, viewerOf } from "../page.ts";

// The dashboard of the queue is bull-board, at /ops/queues behind the login: its pages may load what they need from
// this host, viewers get a board without buttons, and every change is in the audit log. Of its actions only those exist
// that keep their word on a queue whose jobs are made by events alone. Start at `makeQueueDashboard`.

export const DASHBOARD_PATH = "/ops/queues";

/** Its styles are inline, and its data are in the page. It asks for fonts elsewhere, which browsers then refuse. */
const DASHBOARD_POLICY = writePolicy({
  "style-src": "'self' 'unsafe-inline'",
  "img-src": "'self' data:",
  "base-uri": "'self'",
});

/** Mount it at DASHBOARD_PATH, behind the login and the guard of writes. */
export function makeQueueDashboard({ pool, queue }: { pool: Pool; queue: Queue }): Router {
  const router = Router();
  const boards = { acting: makeBoard(queue, false), reading: makeBoard(queue, true) };
  router.use(
    (_request, response, next) => {
      response.set("Content-Security-Policy", DASHBOARD_POLICY);
      next();
    },
    refuseEmptyActions,
    auditChanges(pool, queue),
  );
  router.use(async (request, response, next) => {
    // Without its server the board has no queue, and says nothing of what to do.
    if (request.accepts("json", "html") === "html") await askQueue(queue.getJobCounts("active"));
    const serve = await boards[mayAct(viewerOf(response)) ? "acting" : "reading"](basePathOf(response));
    serve(request, response, next);
  });
  return router;
}

/** Loads the board at the first visit, because most web processes are never asked for it. */
function makeBoard(queue: Queue, readOnlyMode: boolean): (basePath: string) => Promise<RequestHandler> {
  let opening: ReturnType<typeof openBoard> | undefined;
  return (basePath) => (opening ??= openBoard(queue, readOnlyMode, basePath));
}

async function openBoard(queue: Queue, readOnlyMode: boolean, basePath: string): Promise<RequestHandler> {
  const { createBullBoard } = await import("@bull-board/api");
  const { BullMQAdapter } = await import("@bull-board/api/bullMQAdapter");
  const express = await import("@bull-board/express");
  class Adapter extends express.ExpressAdapter {
    /** Serves the page of the board with a way back to ours, which the board itself has nowhere in sight. */
    override setEntryRoute(entry: Parameters<ExpressAdapter["setEntryRoute"]>[0]): this {
      this.app[entry.method](entry.route, (_request: Request, response: Response, next: NextFunction) => {
        const { name, params } = entry.handler({ basePath: this.basePath, uiConfig: this.uiConfig });
        this.app.render(name, params, (error: unknown, page: string) =>
          error ? next(error) : response.send(page.replace("</body>", `${writeWayBack(basePath)}</body>`)),
        );
      });
      return this;
    }
  }
  const serverAdapter = new Adapter().setBasePath(basePath + DASHBOARD_PATH);
  const externalJobUrl = ({ id }: { id?: string | number | null | undefined }) => ({
    displayText: "Events and orders",
    href: `${basePath}/ops/queue-health/${encodeURIComponent(queue.name)}/${encodeURIComponent(String(id))}`,
  });
  createBullBoard({
    queues: [new BullMQAdapter(queue, { readOnlyMode, externalJobUrl })],
    serverAdapter,
    options: { uiConfig: { boardTitle: "order-mirror" } },
  });
  return (serverAdapter.getRouter() as Express).disable("x-powered-by");
}

const WAY_BACK = "position:fixed;right:1rem;bottom:1rem;z-index:99;padding:.5rem .75rem;border-radius:6px";

const writeWayBack = (basePath: string) =>
  html`<a href="${basePath}/ops/queue-health" style="${WAY_BACK};color:#fff;background:#0b57b0"
    >← order-mirror</a
  >`.markup;

/** Jobs are retried, delayed ones are run now, ended ones are removed, and a pause of an earlier version ends. */
const MEANT =
  /^\/api\/queues\/(?:resume|[^/]+\/(?:resume|promote|retry\/\w+|clean\/(?:completed|failed)|[^/]+\/(?:retry|promote|clean)))$/;
const EMPTY_ACTION =
  "This would change nothing, because jobs only wake the workers, which find every event in Postgres within seconds; whoever wants events to wait stops the workers";

/** Refuses what the dashboard offers and this queue cannot mean: its pause, emptying it, and jobs made by hand. */
const refuseEmptyActions: RequestHandler = ({ method, path }, response, next) => {
  if (method === "GET" || method === "HEAD" || MEANT.test(path)) return next();
  response
    .status(405)
    .set("Allow", "GET")
    .json({ error: { key: EMPTY_ACTION }, message: EMPTY_ACTION });
};

/** Records each change before it is carried out: a job, or all jobs of a state, as the address names them. */
function auditChanges(pool: Pool, queue: Queue): RequestHandler {
  return async (request, response, next) => {
    if (request.method === "GET" || request.method === "HEAD") return next();
    const target = request.path.replace(/^\/api\/queues\//, "").replaceAll("/", " ");
    const count = await countAffected(queue, target).catch(() => 1);
    const action = { ...viewerOf(response), action: "queue", sourceId: null, target };
    const actionId = await beginAction(pool, action);
    response.once("finish", () => {
      const affected = response.statusCode < 300 ? count : 0;
      endAction(pool, { actionId, affected }).catch(() => undefined);
    });
    next();
  };
}

/** Counts the jobs that a change is about: those of a state, or one. */
async function countAffected(queue: Queue, target: string): Promise<number> {
  const [, name, action, state] = /^(\S+) (retry|clean|promote)(?: (\w+))?$/.exec(target) ?? [];
  if (name !== queue.name) return 1;
  return queue.getJobCountByTypes((action === "promote" ? "delayed" : state) as JobType);
}

/** A frozen server of a queue does not hold up a page. */
const ANSWER_MS = 3_000;
export const AWAY = "The queue's server does not answer. Workers find events without it, some seconds later.";

/** Waits for an answer of the queue's server. Throws UnavailableError. */
export async function askQueue<Answer>(asked: Promise<Answer>): Promise<Answer> {
  const answer = await withTimeout(
    asked.catch((cause: unknown) => {
      throw new UnavailableError(AWAY, { cause });
    }),
    ANSWER_MS,
  );
  if (answer === "late") throw new UnavailableError(AWAY);
  return answer;
}
