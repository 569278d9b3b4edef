import path from "node:path";
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { chownSync, closeSync, mkdtempSync, openSync, readdirSync, readFileSync } from "node:fs";
import { chmod, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import pg from "pg";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { parse } from "yaml";
import { withDatabase } from "../support/servers/createDatabase.ts";
import {
  RESUMES_WITHIN_MS,
  startFailoverTrial,
  type FailoverTrial,
} from "../support/faults/failoverTrial.ts";
import { runProgram } from "../support/programs/program.ts";
import { findFreePort } from "../../src/runtime/postgres/freePort.ts";
import {
  debianPostgresAccount,
  debianPostgresPrograms,
  hasDebianPostgres,
} from "../support/servers/debianPostgres.ts";
import { readProductionPage } from "../support/servers/productionPage.ts";
import { sendSignal } from "../support/servers/processes.ts";

/** Debian installs some of them in a folder that only root's PATH has. */
const PATH = `${process.env["PATH"] ?? ""}:/usr/sbin`;
const missing = ["patroni", "etcd", "haproxy"].filter((program) => !isInstalled(program));

/** Whether a cluster can be started here. */
const canStartPatroni = hasDebianPostgres && missing.length === 0;

if (!canStartPatroni) {
  // oxlint-disable-next-line no-console -- whoever runs the tests must know what they did not prove
  console.warn(
    `NOT RUN: the tests on Patroni. Missing: ${[...missing, ...(hasDebianPostgres ? [] : ["postgresql"])].join(", ")}.`,
  );
}

const PATIENCE = { timeout: 120_000, interval: 100 };
const PASSWORD = "of-this-test";
const NAMES = ["one", "two"] as const;
type NodeName = (typeof NAMES)[number];

/** Two Postgres servers, one of them synchronous, under Patroni with etcd; HAProxy routes to the primary, as in docs/production.md. */
interface PatroniCluster {
  /** The database `postgres` of the primary, through HAProxy. */
  readonly url: string;
  /** Resolves with the primary and the other node once that is its synchronous standby. */
  waitUntilWhole(): Promise<{ primary: NodeName; standby: NodeName }>;
  /** Resolves when the node is the primary. */
  waitForPrimary(name: NodeName): Promise<void>;
  /** Resolves when the node `name` is a primary without a standby. */
  waitUntilAlone(name: NodeName): Promise<void>;
  /** Kills the node's Postgres, and with its host its Patroni, too, which then stays away until `restore`. */
  kill(name: NodeName, what: "host killed" | "Postgres killed"): void;
  /** Freezes the node's Patroni and all processes of its Postgres: connections stay open and nothing answers. */
  freeze(name: NodeName): void;
  /** Thaws the node, and starts its Patroni if it was killed. */
  restore(name: NodeName): void;
  /** Stops everything and removes its files. */
  remove(): Promise<void>;
}

interface Node {
  readonly dataDir: string;
  readonly apiPort: number;
  readonly postgresPort: number;
  readonly launch: () => ChildProcess;
  patroni: ChildProcess;
  frozen: number[];
}

async function startPatroniCluster(): Promise<PatroniCluster> {
  const home = mkdtempSync(path.join(tmpdir(), "order-mirror-patroni-"));
  const account = debianPostgresAccount();
  if (account !== undefined) chownSync(home, account.uid, account.gid);
  await chmod(home, 0o755);
  const launch = (name: string, program: string, args: readonly string[]) => {
    const log = openSync(path.join(home, `${name}.log`), "a");
    const child = spawn(program, args, { ...account, cwd: home, env: { PATH }, stdio: ["ignore", log, log] });
    closeSync(log);
    return child;
  };

  const etcdUrl = `http://127.0.0.1:${await findFreePort()}`;
  const peerUrl = `http://127.0.0.1:${await findFreePort()}`;
  const etcd = launch("etcd", "etcd", [
    `--data-dir=${path.join(home, "etcd")}`,
    `--initial-cluster=default=${peerUrl}`,
    `--listen-client-urls=${etcdUrl}`,
    `--advertise-client-urls=${etcdUrl}`,
    `--listen-peer-urls=${peerUrl}`,
    `--initial-advertise-peer-urls=${peerUrl}`,
  ]);
  await vi.waitFor(async () => expect((await fetch(`${etcdUrl}/health`)).status).toBe(200), PATIENCE);

  const nodes = new Map<NodeName, Node>();
  for (const name of NAMES) nodes.set(name, await startNode(name, { home, etcdUrl, launch }));
  const haproxyPort = await findFreePort();
  const haproxyFile = path.join(home, "haproxy.cfg");
  await writeFile(haproxyFile, configureHaproxy(haproxyPort, nodes));
  const haproxy = launch("haproxy", "haproxy", ["-db", "-f", haproxyFile]);

  const nodeOf = (name: NodeName) => nodes.get(name) as Node;
  const processesOf = ({ dataDir }: Node) => listPostgres(dataDir);
  return {
    url: `postgres://postgres:${PASSWORD}@127.0.0.1:${haproxyPort}/postgres`,
    async waitUntilWhole() {
      return vi.waitFor(async () => {
        const members = await readMembers(nodeOf("one"));
        const running = members.filter(({ state }) => /running|streaming/.test(state));
        const nameOf = (wanted: string) => running.find(({ role }) => role === wanted)?.name;
        const [primary, standby] = [nameOf("leader"), nameOf("sync_standby")];
        if (primary === undefined || standby === undefined) throw new Error("the cluster is not whole");
        return { primary, standby };
      }, PATIENCE);
    },
    async waitForPrimary(name) {
      await vi.waitFor(async () => {
        const answer = await fetch(`http://127.0.0.1:${nodeOf(name).apiPort}/primary`);
        expect(answer.status).toBe(200);
      }, PATIENCE);
    },
    async waitUntilAlone(name) {
      await vi.waitFor(async () => {
        const members = await readMembers(nodeOf(name));
        expect(members.map(({ role }) => role)).toEqual(["leader"]);
      }, PATIENCE);
    },
    kill(name, what) {
      const node = nodeOf(name);
      // Patroni first, so that it does not notice.
      const pids = [...(what === "host killed" ? [node.patroni.pid ?? 0] : []), ...processesOf(node)];
      for (const pid of pids) sendSignal(pid, "SIGKILL");
    },
    freeze(name) {
      const node = nodeOf(name);
      node.frozen = [node.patroni.pid ?? 0, ...processesOf(node)];
      for (const pid of node.frozen) sendSignal(pid, "SIGSTOP");
    },
    restore(name) {
      const node = nodeOf(name);
      for (const pid of node.frozen.splice(0)) sendSignal(pid, "SIGCONT");
      if (node.patroni.signalCode !== null) node.patroni = node.launch();
    },
    async remove() {
      for (const node of nodes.values())
        for (const pid of [node.patroni.pid ?? 0, ...processesOf(node)]) sendSignal(pid, "SIGKILL");
      for (const child of [haproxy, etcd]) child.kill("SIGKILL");
      await rm(home, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
    },
  };
}

async function startNode(
  name: NodeName,
  {
    home,
    etcdUrl,
    launch,
  }: {
    home: string;
    etcdUrl: string;
    launch: (name: string, program: string, args: readonly string[]) => ChildProcess;
  },
): Promise<Node> {
  const [apiPort, postgresPort] = [await findFreePort(), await findFreePort()];
  const dataDir = path.join(home, name);
  const file = path.join(home, `${name}.yml`);
  const [given = ""] = readProductionPage("yaml patroni");
  const { bootstrap } = parse(given) as { bootstrap: object };
  const authentication = { username: "postgres", password: PASSWORD };
  const settings = {
    scope: "mirror",
    name,
    etcd3: { host: new URL(etcdUrl).host },
    restapi: { listen: `127.0.0.1:${apiPort}`, connect_address: `127.0.0.1:${apiPort}` },
    bootstrap: { ...bootstrap, initdb: [{ encoding: "UTF8" }, { locale: "C" }, "data-checksums"] },
    postgresql: {
      listen: `127.0.0.1:${postgresPort}`,
      connect_address: `127.0.0.1:${postgresPort}`,
      data_dir: dataDir,
      bin_dir: debianPostgresPrograms,
      pgpass: path.join(home, `${name}.pgpass`),
      authentication: { superuser: authentication, replication: authentication, rewind: authentication },
      pg_hba: ["host all all 127.0.0.1/32 scram-sha-256", "host replication all 127.0.0.1/32 scram-sha-256"],
      parameters: { unix_socket_directories: "" },
    },
  };
  // Patroni reads YAML, which includes JSON.
  await writeFile(file, JSON.stringify(settings));
  const start = () => launch(name, "patroni", [file]);
  return { dataDir, apiPort, postgresPort, launch: start, patroni: start(), frozen: [] };
}

/** The configuration in docs/production.md, with the addresses of these servers. */
function configureHaproxy(port: number, nodes: ReadonlyMap<NodeName, Node>): string {
  const [given = ""] = readProductionPage("haproxy");
  return [...nodes.values()].reduce(
    (text, { apiPort, postgresPort }, index) =>
      text.replace(
        `10.0.0.${index + 1}:5432 check port 8008`,
        `127.0.0.1:${postgresPort} check port ${apiPort}`,
      ),
    given.replace("bind 127.0.0.1:5000", `bind 127.0.0.1:${port}`),
  );
}

interface Member {
  readonly name: NodeName;
  readonly role: string;
  readonly state: string;
}

/** The members according to this node. */
async function readMembers({ apiPort }: Node): Promise<Member[]> {
  const answer = await fetch(`http://127.0.0.1:${apiPort}/cluster`, { signal: AbortSignal.timeout(5_000) });
  return ((await answer.json()) as { members: Member[] }).members;
}

/** The processes of the server with this data folder. */
function listPostgres(dataDir: string): number[] {
  const read = (file: string) => {
    try {
      return readFileSync(file, "utf8");
    } catch {
      return undefined;
    }
  };
  const main = Number(read(path.join(dataDir, "postmaster.pid"))?.split("\n")[0]);
  if (!(main > 0)) return [];
  const children = readdirSync("/proc").filter((name) => {
    // The parent is the second field after the program's name, which is in parentheses.
    const [, parent] = /^.*\) \S (\d+) /.exec(read(`/proc/${name}/stat`) ?? "") ?? [];
    return Number(parent) === main;
  });
  return [main, ...children.map(Number)];
}

function isInstalled(program: string): boolean {
  try {
    execFileSync("sh", ["-c", `command -v ${program}`], { stdio: "ignore", env: { PATH } });
    return true;
  } catch {
    return false;
  }
}

/** The primary's host is killed or freezes, its Postgres alone is killed, the standby's host freezes. */
const FAULTS = [
  "host killed",
  "Postgres killed",
  "host frozen",
  "host killed",
  "Postgres killed",
  "standby frozen",
] as const;

let cluster: PatroniCluster | undefined;
let trial: FailoverTrial | undefined;

beforeEach(async () => {
  if (!canStartPatroni) return;
  cluster = await startPatroniCluster();
  await cluster.waitUntilWhole();
  const admin = new pg.Client(cluster.url);
  await admin.connect();
  await admin.query("create database order_mirror");
  await admin.end();
  const databaseUrl = withDatabase(cluster.url, "order_mirror");
  const migrated = await runProgram(["migrate"], { DATABASE_URL: databaseUrl });
  if (migrated.code !== 0) throw new Error(`no migration:\n${migrated.stderr}`);
  trial = await startFailoverTrial(databaseUrl);
});
afterEach(async () => {
  await trial?.close();
  await cluster?.remove();
});

it.runIf(canStartPatroni)(
  "Patroni replaces a primary under load: nothing acknowledged is lost, and all goes on within 30 s (row 37)",
  async () => {
    for (const fault of FAULTS) {
      const { primary, standby } = await cluster!.waitUntilWhole();
      await trial!.runQuietly();
      const failedMs = performance.now();
      if (fault === "standby frozen") {
        cluster!.freeze(standby);
        await cluster!.waitUntilAlone(primary);
      } else {
        if (fault === "host frozen") cluster!.freeze(primary);
        else cluster!.kill(primary, fault);
        await cluster!.waitForPrimary(standby);
      }
      const primaryMs = Math.round(performance.now() - failedMs);
      expect(await trial!.goesOn(failedMs, { primaryMs })).toBeLessThan(RESUMES_WITHIN_MS);
      for (const name of [primary, standby]) cluster!.restore(name);
    }
    await cluster!.waitUntilWhole();
    await trial!.expectNothingLost("37");
  },
  15 * 60_000,
);
