import { makePool } from "../../database/database.ts";
import { ConfigurationError } from "../../domain/errors.ts";
import { DEMO_PROVIDER } from "../../roles/start/recordSources.ts";
import type { Config } from "../../runtime/config/config.ts";
import { findText } from "../../runtime/config/environment.ts";
import { chooseFreePort } from "../../runtime/postgres/freePort.ts";
import { findSourcesOfOthers } from "../../sources/sources.sql.ts";
import type { StoredSource } from "../../sources/sources.sql.ts";
import { printNotice } from "../output/terminal.ts";

export const SANDBOX_HOST = "127.0.0.1";
const EXAMINE_TIMEOUT_MS = 10_000;

/** The demo's own folder and free ports; what a real mirror of this folder speaks to is left alone. */
export async function makeDemoConfig(loaded: Config, dataDir: string): Promise<Config> {
  const { host } = loaded;
  const port = await choosePort("PORT", host, loaded.port);
  const webhookPort =
    loaded.webhookPort === null ? null : await choosePort("WEBHOOK_PORT", host, loaded.webhookPort, [port]);
  const taken = [port, webhookPort];
  const sandboxPort = await choosePort("SANDBOX_PORT", SANDBOX_HOST, loaded.sandboxPort, taken);
  // What it holds is invented, so whoever uses this machine may see and do all of it, unless somebody says no.
  const localTrust = findText("LOCAL_TRUST") === undefined || loaded.localTrust;
  const config = { ...loaded, dataDir, port, webhookPort, sandboxPort, localTrust };
  if (loaded.sources.length === 0) return config;
  return { ...config, redisUrls: [], outgoingWebhooks: [], alertWebhook: null };
}

async function choosePort(
  name: string,
  host: string,
  wanted: number,
  besides: readonly (number | null)[] = [],
): Promise<number> {
  const port = await chooseFreePort(host, wanted, besides);
  if (wanted !== 0 && port !== wanted) printNotice(`Port ${wanted} is taken; ${name} is ${port} this time.`);
  return port;
}

/** Throws ConfigurationError when the database holds a source that no demo has made. */
export async function assertNoRealOrders(databaseUrl: string): Promise<void> {
  const pool = makePool({
    url: databaseUrl,
    purpose: "demo",
    max: 1,
    statementTimeoutMs: EXAMINE_TIMEOUT_MS,
  });
  try {
    const [other] = await findSourcesOfOthers(pool, DEMO_PROVIDER);
    if (other !== undefined) throw refuse(other);
  } finally {
    await pool.end();
  }
}

function refuse({ sourceId, provider }: StoredSource): ConfigurationError {
  const name = `source ${sourceId}${provider === null ? "" : ` of ${provider}`}`;
  return new ConfigurationError(
    `DATABASE_URL leads to a mirror that the demo did not make (${name}), so the demo leaves it alone.`,
    {
      fix: "For that mirror run `order-mirror up`. For the demo unset DATABASE_URL, also in .env, or give it an empty database.",
    },
  );
}
