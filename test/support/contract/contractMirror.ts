import { expect, vi } from "vitest";
import { acquireLease } from "../../../src/database/leases.sql.ts";
import { recordBranches } from "../../../src/sources/recordBranches.sql.ts";
import { makeProviderClient } from "../../../src/provider/client.ts";
import { makeBudget } from "../../../src/provider/budget.ts";
import { systemClock } from "../../../src/process/clock.ts";
import type { SourceConfig } from "../../../src/config/config.ts";
import { loadConfig } from "../../../src/config/environment.ts";
import { keyOf } from "../../../src/config/sources.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import type { Keys } from "./contractTarget.ts";
import type { TestDatabase } from "../servers/database.ts";
import { openServedMirror } from "../mirror/served.ts";
import { makeSandboxControl, type SandboxControl } from "../providers/sandboxControl.ts";

const SOURCES = {
  live: { mode: "live", organization: "sandbox", apiKey: "dos_live_sandbox" },
  test: { mode: "test", organization: "sandbox", apiKey: "dos_test_sandbox" },
  other: { mode: "test", organization: "other", apiKey: "dos_test_other" },
  standard: { mode: "test", organization: "standard", apiKey: "dos_test_standard" },
} as const;

const KEYS: Keys = {
  live: "token-of-the-live-source",
  test: "token-of-the-test-source",
  testSecond: "second-token-of-the-test-source",
  otherTest: "token-of-the-other-source",
  standardTest: "token-of-the-standard-source",
};
const TOKENS = [
  [KEYS.live, "live"],
  [KEYS.test, "test"],
  [KEYS.testSecond, "test"],
  [KEYS.otherTest, "other"],
  [KEYS.standardTest, "standard"],
] as const;

const secretOf = (name: string) => `whsec_${Buffer.from(name.padEnd(32, "!")).toString("base64")}`;

/**
 * Web and worker as composed for users, without a poller: everything that the suite reads came by a write or an event.
 * Branches, which a poller reads once an hour, are read after the control has changed something.
 */
export async function openContractMirror(database: TestDatabase, sandboxUrl: string) {
  const sources = Object.entries(SOURCES).map(([sourceId, source]): SourceConfig => ({
    ...source,
    sourceId,
    baseUrl: sandboxUrl,
    webhookSecrets: [secretOf(sourceId)],
    webhookScheme: "standard-webhooks",
  }));
  const config = {
    ...loadConfig({}, null),
    port: 0,
    sources,
    apiTokens: TOKENS.map(([token, sourceId]) => ({ token, sourceId, mayWrite: true })),
    writeThrough: true,
  };
  const web = await openServedMirror({ config, databaseUrl: database.url }, { worker: true });
  const control = makeSandboxControl(sandboxUrl);
  for (const { organization, mode, sourceId } of sources) {
    if (organization === "standard") continue;
    const url = `${web.url}/webhooks/${sourceId}`;
    await control.addWebhook({
      organization: organization as "sandbox",
      mode,
      url,
      secret: secretOf(sourceId),
      name: "mirror",
    });
  }
  const clients = sources.map((source) => ({ ...source, client: makeClient(source) }));
  const catchUp = async () => {
    await control.settleEvents();
    // Also called where no test is running, which expect.poll refuses.
    await vi.waitFor(async () => expect(await countPending(database)).toBe(0), { timeout: 60_000 });
    for (const { sourceId, client } of clients) await readBranches(database, { sourceId, client });
  };
  await catchUp();
  return {
    url: web.url,
    /** Tokens in place of the keys. */
    keys: KEYS,
    /** Resolves once the mirror has its changes, too, by an event or a read. */
    control: followedBy(control, catchUp),
    close: () => web.close(),
  };
}

function makeClient(source: SourceConfig) {
  const { baseUrl } = source;
  const budget = makeBudget({ clock: systemClock });
  return makeProviderClient({
    baseUrl,
    apiKey: keyOf(source),
    budget,
    clock: systemClock,
    logger: silentLogger,
  });
}

async function countPending({ pool }: TestDatabase): Promise<number> {
  const { rows } = await pool.query<{ count: string }>("select count(*) from mirror.pending");
  return Number(rows[0]?.count);
}

async function readBranches(
  { pool }: TestDatabase,
  { sourceId, client }: { sourceId: string; client: ReturnType<typeof makeClient> },
): Promise<void> {
  // A plan without the API has no list of branches either.
  const listed = await client.listBranches().catch(() => undefined);
  if (listed === undefined) return;
  const holder = crypto.randomUUID();
  const lease = await acquireLease(pool, {
    name: `branches of ${sourceId} for ${holder}`,
    holder,
    ttlMs: 60_000,
  });
  if (lease === undefined) throw new Error("nobody else takes this lease");
  await recordBranches(pool, lease, { sourceId, raws: listed.raws, ageMs: 0 });
}

/** Every function of `control`, and `then` after it. */
function followedBy(control: SandboxControl, then: () => Promise<void>): SandboxControl {
  const entries = Object.entries(control) as [string, (...given: unknown[]) => Promise<unknown>][];
  return Object.fromEntries(
    entries.map(([name, act]) => [
      name,
      async (...given: unknown[]) => {
        const result = await act(...given);
        await then();
        return result;
      },
    ]),
  ) as unknown as SandboxControl;
}
