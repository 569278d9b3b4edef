import { diagnose } from "../../../src/cli/doctor/doctor.ts";
import { makeAlerter, type AlertMessage } from "../../../src/health/alerter.ts";
import { makePool } from "../../../src/database/database.ts";
import { openQueues } from "../../../src/roles/role.ts";
import { openHealth } from "../../../src/roles/health.ts";
import { loadConfig } from "../../../src/runtime/config/config.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { makeShutdown } from "../../../src/runtime/lifecycle/shutdown.ts";
import { findFreePort } from "../../../src/runtime/postgres/freePort.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { makeMetrics } from "../../../src/runtime/telemetry/metrics.ts";
import { checkScheme } from "../../../src/signature/scheme.ts";
import { runCommand } from "../programs/command.ts";
import { openServedMirror } from "../mirror/servedMirror.ts";

/** The conditions that a surface shows: "critical OrderMirrorNoLeader", sorted. */
type Said = readonly string[];

export type Surfaces = Awaited<ReturnType<typeof openSurfaces>>;

/** The real web process over a database, with everything else that shows the mirror's state. */
export async function openSurfaces(env: Record<string, string>) {
  const whole = { ...env, PORT: String(await findFreePort()) };
  const config = loadConfig(whole, { checkScheme, envFile: null });
  const databaseUrl = env["DATABASE_URL"] ?? "";
  const shutdown = makeShutdown({ logger: silentLogger });
  // Makes cached readings outdated at the next check.
  let heldBackMs = 0;
  const clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + heldBackMs };
  const metrics = makeMetrics({ version: "0" });
  const deps = { config, databaseUrl, clock, logger: silentLogger, shutdown, metrics };
  const health = openHealth({ ...deps, ...(await openQueues(deps)) });
  const { url, close } = await openServedMirror({ config, databaseUrl, clock });
  const alerts: AlertMessage[] = [];
  const pool = makePool({ url: databaseUrl, purpose: "test", max: 1, statementTimeoutMs: 10_000 });
  const send = async (message: AlertMessage) => void alerts.push(message);
  const alert = makeAlerter({ pool, send, logger: silentLogger });
  const readText = async (path: string) => (await fetch(url + path)).text();

  return {
    /** Address of the web process. */
    url,
    health,
    /** What page, status, doctor, readiness and metrics show now, each separately. */
    async look() {
      heldBackMs += 10_000;
      return {
        page: findAll(await readText("/ops"), /class="(\w+)" data-condition="(\w+)"/g),
        status: await readStatus(whole),
        doctor: await readDoctor(whole),
        readyz: readConditions(JSON.parse(await readText("/readyz?verbose")) as Conditions),
        metrics: findAll(
          await readText("/metrics"),
          /^order_mirror_condition\{condition="(\w+)",severity="(\w+)".*\} 1$/gm,
          ([name = "", severity = ""]) => `${severity} ${name}`,
        ),
      };
    },
    /** The alerts received so far, after one more run of the alerter. */
    async tell() {
      heldBackMs += 10_000;
      await alert(await health.read());
      return alerts.map(({ type, data }) => `${type} ${data.severity} ${data.name}`);
    },
    /** The whole text of the page as a person reads it. */
    async readPage() {
      heldBackMs += 10_000;
      return (await readText("/ops")).replaceAll(/<[^>]+>/g, " ").replaceAll(/\s+/g, " ");
    },
    async close() {
      await close();
      await shutdown.run("the test is over");
      await pool.end();
    },
  };
}

interface Conditions {
  readonly conditions?: readonly { readonly name: string; readonly severity: string }[];
}

const tidy = (said: readonly string[]): Said => [...new Set(said)].toSorted();

function readConditions({ conditions = [] }: Conditions): Said {
  return tidy(conditions.map(({ name, severity }) => `${severity} ${name}`));
}

function findAll(text: string, pattern: RegExp, join = (groups: string[]) => groups.join(" ")): Said {
  return tidy([...text.matchAll(pattern)].map(([, ...groups]) => join(groups)));
}

async function readStatus(env: Record<string, string>): Promise<Said> {
  const sources = JSON.parse(await printStatus(env, "--json")) as Conditions[];
  return tidy(sources.flatMap(readConditions));
}

/** What `order-mirror status` prints. */
export async function printStatus(env: Record<string, string>, ...options: string[]): Promise<string> {
  const databaseUrl = env["DATABASE_URL"] ?? "";
  return (await runCommand(["status", ...options], { databaseUrl, env })).stdout;
}

/** What `order-mirror doctor` finds, in this process. */
export async function readFindings(env: Record<string, string>) {
  const readConfig = () => loadConfig(env, { checkScheme, envFile: null });
  return (await diagnose({ readConfig, publicUrl: null })).findings;
}

async function readDoctor(env: Record<string, string>): Promise<Said> {
  const findings = await readFindings(env);
  const severity = { ok: "ok", warning: "warning", problem: "critical" };
  return tidy(
    findings.flatMap(({ condition, level }) =>
      condition === undefined ? [] : [`${severity[level]} ${condition}`],
    ),
  );
}
