import { expect, vi } from "vitest";
import { acquireLease } from "../../../src/database/leases.sql.ts";
import { recordBranches } from "../../../src/sources/recordBranches.sql.ts";
import type { SourceConfig } from "../../../src/config/config.ts";
import { loadConfig } from "../../../src/config/environment.ts";
import { rawElements, rawMember } from "../../../src/wire/rawJson.ts";
import type { Keys } from "./contractTarget.ts";
import type { TestDatabase } from "../servers/database.ts";
import { openServedMirror } from "../mirror/served.ts";
import { speakTo, type TestSandbox } from "../providers/testSandbox.ts";

const SOURCES = {
  live: { mode: "live", organization: "sandbox", apiKey: "dos_live_sandbox" },
  test: { mode: "test", organization: "sandbox", apiKey: "dos_test_sandbox" },
  otherTest: { mode: "test", organization: "other", apiKey: "dos_test_other" },
  standardTest: { mode: "test", organization: "standard", apiKey: "dos_test_standard" },
} as const;

const KEYS: Keys = {
  live: "token-of-the-live-source",
  test: "token-of-the-test-source",
  testSecond: "second-token-of-the-test-source",
  otherTest: "token-of-the-other-source",
  standardTest: "token-of-the-standard-source",
};
const secretOf = (name: string) => `whsec_${Buffer.from(name.padEnd(32, "!")).toString("base64")}`;

/**
 * Web and worker as composed for users, without a poller: everything that the suite reads came by a write or an event.
 * Branches, which a poller reads once an hour, are read after the control has changed something.
 */
export async function openContractMirror(
  database: TestDatabase,
  { url: sandboxUrl, steer }: Pick<TestSandbox, "url" | "steer">,
) {
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
    apiTokens: Object.entries(KEYS).map(([name, token]) => {
      return { token, sourceId: name.replace("Second", ""), mayWrite: true };
    }),
    writeThrough: true,
  };
  const web = await openServedMirror({ config, databaseUrl: database.url }, { worker: true });
  for (const { organization, mode, sourceId } of sources) {
    if (organization === "standard") continue;
    const url = `${web.url}/webhooks/${sourceId}`;
    await steer("POST", "/webhooks", { organization, mode, url, secret: secretOf(sourceId), name: "mirror" });
  }
  const catchUp = async () => {
    await steer("POST", "/idle");
    // Also called where no test is running, which expect.poll refuses.
    await vi.waitFor(async () => expect(await countPending(database)).toBe(0), { timeout: 60_000 });
    for (const source of sources) await readBranches(database, source);
  };
  await catchUp();
  return {
    url: web.url,
    /** Tokens in place of the keys. */
    keys: KEYS,
    /** Resolves once the mirror has its changes, too, by an event or a read. */
    steer: async (...request: Parameters<typeof steer>) => {
      const result: unknown = await steer(...request);
      await catchUp();
      return result as Awaited<ReturnType<typeof steer>>;
    },
    close: () => web.close(),
  };
}

async function countPending({ pool }: TestDatabase): Promise<number> {
  const { rows } = await pool.query<{ count: string }>("select count(*) from mirror.pending");
  return Number(rows[0]?.count);
}

async function readBranches({ pool }: TestDatabase, source: SourceConfig): Promise<void> {
  const { sourceId, baseUrl, apiKey: key } = source;
  const listed = await speakTo({ url: baseUrl }).ask("GET", "/v1/branches", { key });
  // A plan without the API has no list of branches either.
  if (listed.status !== 200) return;
  const holder = crypto.randomUUID();
  const name = `branches of ${sourceId} for ${holder}`;
  const lease = await acquireLease(pool, { name, holder, ttlMs: 60_000 });
  if (lease === undefined) throw new Error("nobody else takes this lease");
  const raws = rawElements(rawMember(listed.text, "data") ?? "[]");
  await recordBranches(pool, lease, { sourceId, raws, ageMs: 0 });
}
