import { existsSync } from "node:fs";
import path from "node:path";
import pg from "pg";
import { afterAll, afterEach, beforeEach, describe, expect, inject, it } from "vitest";
import { startEmbeddedPostgres, type EmbeddedPostgres } from "../../../src/postgres/embeddedPostgres.ts";
import { provideCredentials } from "../../../src/config/credentials.ts";
import { load, LIVE } from "../../support/config/loading.ts";
import { copyCluster } from "../../support/servers/ownPostgres.ts";
import { mountSmallDisk, type SmallDisk } from "../../support/servers/smallDisk.ts";

const disk = mountSmallDisk(160);
afterAll(() => disk?.unmount());
/** Never used: without a disk no test runs. */
const NO_DISK: Omit<SmallDisk, "unmount"> = { folder: "", fill: async () => {}, empty: () => {} };

const { folder, fill, empty } = disk ?? NO_DISK;

describe.runIf(disk !== undefined)("on a full disk", () => {
  const dataDir = path.join(folder, "data");
  let server: EmbeddedPostgres;
  beforeEach(async () => {
    await copyCluster(inject("postgresTemplate"), dataDir);
    server = await startEmbeddedPostgres({ dataDir, durable: false, revive: false });
  });
  afterEach(async () => {
    empty();
    await server.stop();
  });

  it("a command that needs the embedded Postgres names the cause, and works as soon as there is room", async () => {
    await fill();
    const join = () => startEmbeddedPostgres({ dataDir });
    await expect(join()).rejects.toMatchObject({
      message: expect.stringMatching(/postgres-lock cannot be written: the disk is full\.$/) as string,
      fix: "Free 100 MB there, then try again.",
      retry: "later",
    });
    // A lock without a name would be waited for.
    expect(existsSync(path.join(dataDir, "postgres-lock"))).toBe(false);
    empty();
    await (await join()).stop();
  });

  it("a first start names the cause, where its tokens and passwords would be kept", async () => {
    await fill();
    await expect(provideCredentials(load({ ...LIVE, DATA_DIR: folder }))).rejects.toMatchObject({
      message: expect.stringMatching(/credentials\.json: the disk is full\.$/) as string,
      fix: "Free space there, or set API_TOKENS and OPS_PASSWORD.",
      retry: "later",
    });
  });

  it("the last process stops the embedded Postgres, and nothing goes on running", async () => {
    await fill();
    await server.stop();
    await expect(new pg.Client(server.url).connect()).rejects.toThrow("ECONNREFUSED");
  });
});
