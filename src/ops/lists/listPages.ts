import type { RequestHandler } from "express";
import type { Pool } from "../../database/database.ts";
import { ACTION_LIST } from "./actionsPage.ts";
import { BREACHES, GAPS, WALKS } from "./coverageLists.sql.ts";
import type { List, Listed } from "./list.ts";
import { CERTIFICATES, LOST, REFETCHES, REQUESTS, SLOW, TASKS, WAITING } from "./opsLists.sql.ts";
import { serveList } from "./serveList.ts";
import { SESSION_LIST } from "./sessionsPage.sql.ts";

const at =
  <Row extends Listed>(list: List<Row>) =>
  (pool: Pool, path: string) =>
    serveList(pool, path, list);

/** The lists by their address. */
export const LISTS: Readonly<Record<string, (pool: Pool, path: string) => RequestHandler>> = {
  "/lost": at(LOST),
  "/slow": at(SLOW),
  "/waiting": at(WAITING),
  "/refetches": at(REFETCHES),
  "/requests": at(REQUESTS),
  "/walks": at(WALKS),
  "/gaps": at(GAPS),
  "/breaches": at(BREACHES),
  "/certificates": at(CERTIFICATES),
  "/tasks": at(TASKS),
  "/actions": at(ACTION_LIST),
  "/sessions": at(SESSION_LIST),
};
