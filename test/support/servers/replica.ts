import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, vi } from "vitest";
import { backUp } from "./backup.ts";
import { openOwnPostgres, type OwnPostgres } from "./ownPostgres.ts";
import { runOnServer } from "./createDatabase.ts";

/** A hot standby of a running server. After its promotion, it does not wait for a standby. */
export async function startStandby(primary: OwnPostgres): Promise<OwnPostgres> {
  const home = await mkdtemp(path.join(tmpdir(), "order-mirror-standby-"));
  const { hostname, port, username, password } = new URL(primary.url);
  await backUp({
    url: primary.url,
    from: primary.dataDir,
    to: path.join(home, "server"),
    signal: "standby.signal",
    settings: {
      primary_conninfo: `host=${hostname} port=${port} user=${username} password=${decodeURIComponent(password)}`,
      synchronous_standby_names: "",
    },
  });
  return openOwnPostgres({ home });
}

/** From now on each commit of the server waits until its standby has it; resolves when the standby keeps up. */
export async function waitForStandby(primary: OwnPostgres): Promise<void> {
  await runOnServer(primary.url, "alter system set synchronous_standby_names = '*'");
  await runOnServer(primary.url, "select pg_reload_conf()");
  await vi.waitFor(
    async () => {
      const states = await runOnServer(primary.url, "select sync_state from pg_stat_replication");
      expect(states).toEqual([{ sync_state: "sync" }]);
    },
    { timeout: 60_000, interval: 50 },
  );
}

/** Makes the standby a primary; resolves when it takes writes. */
export async function promote(standby: OwnPostgres): Promise<void> {
  expect(await runOnServer(standby.url, "select pg_promote(true, 60) as promoted")).toEqual([
    { promoted: true },
  ]);
}
