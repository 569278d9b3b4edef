import { withPool } from "../../database/database.ts";
import { ConfigurationError } from "../../domain/errors.ts";
import { DEMO_PROVIDER } from "../../roles/start/recordSources.ts";
import type { Config } from "../../runtime/config/config.ts";
import { findText } from "../../runtime/config/processEnvironment.ts";
import { chooseFreePort } from "../../runtime/postgres/freePort.ts";
import { findSourcesOfOthers } from "../../sources/sources.sql.ts";
import type { StoredSource } from "../../sources/sources.sql.ts";
import { printNotice } from "../output/terminal.ts";

export const SANDBOX_HOST = "127.0.0.1";
const EXAMINE_TIMEOUT_MS = 10_000;

/** The demo's own folder and free ports, so that it does not touch a real mirror in this folder. */
export async function makeDemoConfig(loaded: Config, dataDir: string): Promise<Config> {
  const { host } = loaded;
  const port = await choosePort("PORT", host, loaded.port);
  const webhookPort =
    loaded.webhookPort === null ? null : await choosePort("WEBHOOK_PORT", host, loaded.webhookPort, [port]);
  const taken = [port, webhookPort];
  const sandboxPort = await choosePort("SANDBOX_PORT", SANDBOX_HOST, loaded.sandboxPort, taken);
  // All of the demo's content is invented, so every user of this machine may see and do everything, unless LOCAL_TRUST
  // says otherwise.
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

/** Throws ConfigurationError if the database holds a source that no demo created. */
export async function assertNoRealOrders(databaseUrl: string): Promise<void> {
  const options = { url: databaseUrl, purpose: "demo", max: 1, statementTimeoutMs: EXAMINE_TIMEOUT_MS };
  const [other] = await withPool(options, (pool) => findSourcesOfOthers(pool, DEMO_PROVIDER));
  if (other !== undefined) throw refuse(other);
}

function refuse({ sourceId, provider }: StoredSource): ConfigurationError {
  const name = `source ${sourceId}${provider === null ? "" : ` of ${provider}`}`;
  return new ConfigurationError(
    `DATABASE_URL points to a mirror that the demo did not create (${name}), so the demo does not touch it.`,
    {
      fix: "For that mirror, run `order-mirror up`. For the demo, unset DATABASE_URL (also in .env) or set it to an empty database.",
    },
  );
}
