import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import pg from "pg";
import { migrate } from "../../src/database/migrations.ts";
import { startEmbeddedPostgres } from "../../src/runtime/postgres/embeddedPostgres.ts";
import { FuzzFinding, fuzzReceiver } from "./fuzzReceiver.ts";

// npm run test:fuzz -- --seconds 600 --seed 7

const { values } = parseArgs({
  options: { seconds: { type: "string", default: "60" }, seed: { type: "string", default: "1" } },
});
const seconds = Number(values.seconds);
const seed = Number(values.seed);
if (!(seconds > 0) || !Number.isSafeInteger(seed)) {
  process.stderr.write("usage: npm run test:fuzz -- --seconds NUMBER --seed INTEGER\n");
  process.exit(2);
}
const dataDir = await mkdtemp(path.join(tmpdir(), "order-mirror-fuzz-"));
const postgres = await startEmbeddedPostgres({ dataDir, durable: false });
const pool = new pg.Pool({ connectionString: postgres.url, max: 4 });
try {
  await migrate(postgres.url);
  const endAtMs = performance.now() + seconds * 1_000;
  const isDone = () => performance.now() >= endAtMs;
  const report = await fuzzReceiver({ url: postgres.url, pool, seed, isDone });
  process.stdout.write(`${JSON.stringify({ seed, ...report })}\n`);
} catch (error) {
  if (!(error instanceof FuzzFinding)) throw error;
  process.stderr.write(`found: ${error.message}\n`);
  process.exitCode = 1;
} finally {
  await pool.end();
  await postgres.stop();
  await rm(dataDir, { recursive: true, force: true });
}
