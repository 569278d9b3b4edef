import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import pg from "pg";
import { expect, vi } from "vitest";
import { backUp } from "./backup.ts";
import { openOwnPostgres, type OwnPostgres } from "./ownPostgres.ts";

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
  await runOn(primary, "alter system set synchronous_standby_names = '*'");
  await runOn(primary, "select pg_reload_conf()");
  await vi.waitFor(
    async () => {
      const states = await runOn(primary, "select sync_state from pg_stat_replication");
      expect(states).toEqual([{ sync_state: "sync" }]);
    },
    { timeout: 60_000, interval: 50 },
  );
}

/** Makes the standby a primary; resolves when it takes writes. */
export async function promote(standby: OwnPostgres): Promise<void> {
  expect(await runOn(standby, "select pg_promote(true, 60) as promoted")).toEqual([{ promoted: true }]);
}

async function runOn({ url }: OwnPostgres, sql: string): Promise<unknown[]> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
}
