import { hostname, userInfo } from "node:os";
import type { Pool } from "../../database/database.ts";
import { beginAction, endAction } from "../../ops/lists/opsActions.sql.ts";
import { ENVIRONMENT } from "../../runtime/config/environment.ts";

const NAME_LENGTH_MAX = 255;

/**
 * Does what a command changes or takes out, and writes that into the audit log: that it was begun before it is done, and
 * how many things it concerned at its end. Where the log cannot be written, it is not done.
 */
export async function audited<Result>(
  pool: Pool,
  action: {
    readonly action: string;
    /** Null: of every source. */
    readonly sourceId: string | null;
    /** What it concerns, without personal data. */
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

/** `ada@machine`, and `ada as root@machine` by way of sudo. */
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
    // An account without an entry, as containers have them.
    return `uid ${process.getuid?.() ?? "unknown"}`;
  }
}
