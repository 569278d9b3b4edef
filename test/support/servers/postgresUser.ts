import { startEmbeddedPostgres } from "../../../src/runtime/postgres/embeddedPostgres.ts";

/**
 * A separate process that uses an embedded Postgres. Argument: the data folder. Prints one line of JSON with the
 * connection, and stops using the server when its stdin ends.
 */
const [dataDir = ""] = process.argv.slice(2);
const server = await startEmbeddedPostgres({ dataDir, durable: false });
process.stdout.write(`${JSON.stringify({ url: server.url, shared: server.shared })}\n`);
process.stdin.on("end", () => void server.stop()).resume();
