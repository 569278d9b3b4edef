import type { Response } from "express";
import type { Pool } from "../../database/database.ts";
import { actorOf } from "../auth/viewer.ts";
import { beginAction, endAction } from "./opsActions.sql.ts";
import type { OpsAction } from "./opsActions.sql.ts";

/** Carries out an action, which returns how much it affected, and leads to `address`, or to its entry in the audit log. */
export async function carryOut(
  pool: Pool,
  response: Response,
  action: Omit<OpsAction, "role" | "person">,
  run: () => Promise<number>,
  address?: string,
): Promise<void> {
  const actionId = await beginAction(pool, { ...actorOf(response), ...action });
  await endAction(pool, { actionId, affected: await run() });
  response.redirect(303, address ?? `/ops/actions?did=${actionId}`);
}
