import { setAnswerHeaders } from "../../../src/roles/serve.ts";
import { makePool } from "../../../src/database/database.ts";
import type { Pool } from "../../../src/database/database.ts";
import { makeOpsRouter } from "../../../src/ops/opsRouter.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { openBoardQueue } from "./boardQueue.ts";
import { makeTestDatabase } from "../servers/database.ts";
import { fillMirror } from "./opsMirror.ts";
import { fillOutgoing } from "./outgoingEndpoint.ts";
import { serve } from "../http/serve.ts";

export const PASSWORDS = { operator: "operate at night", viewer: "only look" } as const;

/** The ops pages as web serves them, with both passwords set, over a mirror with a history. */
export async function serveOpsPages() {
  const database = await makeTestDatabase();
  const pool: Pool = makePool({ url: database.url, purpose: "ops", max: 4, statementTimeoutMs: 10_000 });
  await fillMirror(pool);
  await fillOutgoing(pool, "<b>Internal Server Error</b>");
  const board = await openBoardQueue(database.url, "tour");
  await board.queue.add("events", { seqs: [1] });
  const ending = new AbortController();
  const config = { opsPassword: PASSWORDS.operator, opsViewerPassword: PASSWORDS.viewer, localTrust: true };
  const router = makeOpsRouter({
    pool,
    queues: () => [board.queue],
    config,
    logger: silentLogger,
  });
  const server = await serve(setAnswerHeaders, router);
  const close = async () => {
    ending.abort();
    await server.close();
    await board.close();
    await pool.end();
    await database.drop();
  };
  return { url: server.url, database, close };
}
