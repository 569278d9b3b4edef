import pg from "pg";
import { amount } from "./effort.ts";

/** 1.6 GB, for what is written between two checkpoints: 6.5 kB for an event from its first byte to the mirror. */
const FILES = amount(100);

/** Settings of a server that has work to do; see docs/scaling.md. */
export const SERVER_SETTINGS = ["min_wal_size=1024MB", "max_wal_size=8GB"] as const;

/**
 * Brings a new server to where one is that has run for a while: its files of write-ahead log are there to be written
 * anew. A file that has yet to be made holds up all commits for some 50 ms, every 1.5 s at 2,000 events per second.
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
