import { startEmbeddedPostgres } from "../../../src/postgres/embeddedPostgres.ts";

/**
 * A separate process that uses an embedded Postgres. Argument: the data folder. Prints the address, and
 * stops using the server when its stdin ends.
 */
const [dataDir = ""] = process.argv.slice(2);
const server = await startEmbeddedPostgres({ dataDir, durable: false });
process.stdout.write(`${server.url}\n`);
process.stdin.on("end", () => void server.stop()).resume();
