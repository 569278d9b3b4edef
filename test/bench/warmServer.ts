import pg from "pg";

const MEGABYTES = 1_024;
const CHUNK_MEGABYTES = 16;

/** Settings of a server that has work to do; see docs/scaling.md. */
export const SERVER_SETTINGS = [`min_wal_size=${MEGABYTES}MB`, "max_wal_size=8GB"] as const;

/**
 * Brings a new server to where one is that has run for a while: its files of write-ahead log are there to be written
 * anew. A file that has yet to be made holds up all commits for some 50 ms, every 1.5 s at 2,000 events per second.
 */
export async function warmServer(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  for (let written = 0; written < MEGABYTES; written += CHUNK_MEGABYTES) {
    await client.query("select pg_logical_emit_message(false, 'bench', repeat('x', $1 * 1024 * 1024))", [
      CHUNK_MEGABYTES,
    ]);
  }
  await client.query("checkpoint");
  await client.end();
}
