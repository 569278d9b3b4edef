import type { RequestHandler } from "express";
import type { Pool } from "../../database/database.ts";
import { beginAction, endAction } from "./opsActions.sql.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";
import { actorOf } from "../auth/viewer.ts";

const READING = new Set(["GET", "HEAD"]);
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
