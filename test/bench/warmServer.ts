import pg from "pg";
import { amount } from "./effort.ts";

/** 1.6 GB, for the writes between two checkpoints: 6.5 kB per event on its way to the mirror. */
const FILES = amount(100);

/** Settings of a busy server; see docs/production.md. */
export const SERVER_SETTINGS = ["min_wal_size=1024MB", "max_wal_size=8GB"] as const;

/**
 * Brings a new server to the state after running for a while, with write-ahead log files that can be reused. Creating such
 * a file delays all commits for some 50 ms, every 1.5 s at 2,000 events per second.
 */
export async function warmServer(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  for (let file = 0; file < FILES; file += 1) {
    await client.query("select pg_logical_emit_message(false, 'bench', 'something to switch from')");
    await client.query("select pg_switch_wal()");
  }
  await client.query("checkpoint");
  await client.end();
}
