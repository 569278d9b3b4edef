import { createBullBoard } from "@bull-board/api";
import { BullMQAdapter } from "@bull-board/api/bullMQAdapter";
import { ExpressAdapter } from "@bull-board/express";
import type { Express, RequestHandler } from "express";
import type { Role } from "../auth/passwords.ts";
import type { Pool } from "../../database/database.ts";
import { beginAction, endAction } from "./opsActions.sql.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";
import { actorOf } from "../auth/viewer.ts";
import { READING } from "../auth/writeGuard.ts";

/** A BullMQ `Queue`, on either backend. */
export interface BoardQueue {
  readonly name: string;
}

/** bull-board's types only know the Redis backend; its code asks the queue for its backend. */
type RedisQueue = ConstructorParameters<typeof BullMQAdapter>[0];

/** bull-board under `basePath`, as the role may see it. In read-only mode bull-board itself refuses writes (405). */
export function makeQueueBoard(options: {
  queues: readonly BoardQueue[];
  basePath: string;
  role: Role;
}): RequestHandler {
  const { queues, basePath, role } = options;
  const adapter = new ExpressAdapter().setBasePath(basePath);
  const readOnlyMode = role === "viewer";
  createBullBoard({
    queues: queues.map((queue) => new BullMQAdapter(queue as RedisQueue, { readOnlyMode })),
    serverAdapter: adapter,
    options: {
      uiConfig: {
        boardTitle: "order-mirror",
        miscLinks: [{ text: "Overview", url: "/ops" }],
        hideDocsLink: true,
      },
    },
  });
  const board = adapter.getRouter() as Express;
  board.disable("x-powered-by");
  return (request, response, next) => {
    const send = response.send.bind(response);
    response.send = (body: unknown) => send(typeof body === "string" ? withoutForeignLinks(body) : body);
    board(request, response, next);
  };
}

/** bull-board's page requests fonts from Google. The policy blocks them, but the browser's console would report it. */
function withoutForeignLinks(body: string): string {
  return body.startsWith("<!DOCTYPE html>") ? body.replaceAll(/<link href="https:[^>]*>/g, "") : body;
}

const TARGET_LENGTH_MAX = 200;

/**
 * Records an operator's actions in bull-board in the audit log: the start before the action, the end after the answer.
 */
export function makeQueueAudit({ pool, logger }: { pool: Pool; logger: Logger }): RequestHandler {
  return async (request, response, next) => {
    if (READING.has(request.method)) return next();
    const target = `${request.method} ${request.path}`.slice(0, TARGET_LENGTH_MAX);
    const actionId = await beginAction(pool, {
      ...actorOf(response),
      action: "queue",
      sourceId: null,
      target,
    });
    response.once("finish", () => {
      const affected = response.statusCode < 400 ? 1 : 0;
      endAction(pool, { actionId, affected }).catch((error: unknown) => {
        logger.warn({ err: error }, "the end of an action on the queues could not be recorded");
      });
    });
    next();
  };
}
