import { hostname, userInfo } from "node:os";
import type { Pool } from "../../database/database.ts";
import { beginAction, endAction } from "../../ops/lists/opsActions.sql.ts";
import { ENVIRONMENT } from "../../runtime/config/processEnvironment.ts";

const NAME_LENGTH_MAX = 255;

/**
 * Runs a command that changes or exports something and records it in the audit log: the start before it runs, and the
 * number of affected rows when it ends. If the log cannot be written, the command does not run.
 */
export async function audited<Result>(
  pool: Pool,
  action: {
    readonly action: string;
    /** Null: every source. */
    readonly sourceId: string | null;
    /** What the command affects, without personal data. */
    readonly target: string;
  },
  run: () => Promise<Result>,
  count: (result: Result) => number = () => 1,
): Promise<Result> {
  const actionId = await beginAction(pool, { role: "command", person: nameAccount(), ...action });
  const result = await run();
  await endAction(pool, { actionId, affected: count(result) });
  return result;
}

/** `ada@machine`, or `ada as root@machine` under sudo. */
export function nameAccount(env: NodeJS.Dict<string> = ENVIRONMENT): string {
  const account = readAccount();
  const caller = env["SUDO_USER"];
  const who = caller === undefined || caller === account ? account : `${caller} as ${account}`;
  return `${who}@${hostname()}`.slice(0, NAME_LENGTH_MAX);
}

function readAccount(): string {
  try {
    return userInfo().username;
  } catch {
    // An account without a passwd entry, as in containers.
    return `uid ${process.getuid?.() ?? "unknown"}`;
  }
}
