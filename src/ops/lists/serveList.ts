import type { RequestHandler } from "express";
import type { Pool } from "../../database/database.ts";
import { classifyDatabaseError } from "../../database/databaseErrors.ts";
import { readSourceIds } from "../../sources/sources.sql.ts";
import { viewerOf } from "../auth/viewer.ts";
import { readField, refuse, sendPage } from "../html/requests.ts";
import type { List, Listed, ListQuery } from "./list.ts";
import { renderList } from "./listPage.ts";

/** Rows on one page. */
const PAGE_ROWS = 50;
const TEXT_LENGTH_MAX = 200;

/** Serves a list at `path`. */
export function serveList<Row extends Listed>(pool: Pool, path: string, list: List<Row>): RequestHandler {
  return async (request, response) => {
    const query = parseQuery(list, request.query);
    try {
      const rows = await list.read(pool, { ...query, limit: PAGE_ROWS + 1 });
      const page = {
        list,
        path,
        query,
        sources: list.ofSources === false ? [] : await readSourceIds(pool),
        rows: rows.slice(0, PAGE_ROWS),
        hasMore: rows.length > PAGE_ROWS,
        did: readField(request.query["did"]),
        viewer: viewerOf(response),
      };
      sendPage(response, renderList(page, await list.above?.(page)));
    } catch (error) {
      if (query.after === null || classifyDatabaseError(error) !== "refused-content") throw error;
      refuse(response, 400, "This is not the address of a page of this list.");
    }
  };
}

function parseQuery<Row extends Listed>(
  { filters = {}, sorts, ofSources }: List<Row>,
  given: Readonly<Record<string, unknown>>,
): ListQuery {
  const chosen = Object.entries(filters).map(([name, { words, standard = null }]) => {
    const word = readField(given[name]).trim().slice(0, TEXT_LENGTH_MAX);
    return [name, (words ?? [word].filter(Boolean)).includes(word) ? word : standard] as const;
  });
  const after = [given["after"]].flat().map(readField);
  const sort = readField(given["sort"]);
  return {
    sourceId: ofSources === false ? null : readField(given["source"]) || null,
    chosen: Object.fromEntries(chosen),
    sort: sorts.includes(sort) ? sort : (sorts[0] ?? ""),
    after: after.every((key) => key === "") ? null : after,
    limit: PAGE_ROWS,
  };
}
