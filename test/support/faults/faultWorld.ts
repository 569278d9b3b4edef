import { findFreePort } from "../../../src/postgres/freePort.ts";
import { makeEventLoad } from "./events.ts";
import { startFaultProxy, type FaultProxy } from "./faultProxy.ts";
import { makeMirrorAudit } from "./mirrorAudit.ts";
import { startOwnPostgres } from "../servers/ownPostgres.ts";
import { LIVE_ENV, startProgram, stopPrograms, type RunningProgram } from "../programs/program.ts";
import { canStartRedis, startRedis } from "../servers/redis.ts";
import { systemClock } from "../../../src/process/clock.ts";

export type Role = "web" | "worker" | "poller" | "up";

export interface FaultWorldOptions {
  readonly postgres?: Parameters<typeof startOwnPostgres>[0];
  readonly redisSettings?: readonly string[];
  /** Further variables of every program. */
  readonly env?: Record<string, string>;
}

export type FaultWorld = Awaited<ReturnType<typeof startFaultWorld>>;

/**
 * The built program, with its own Postgres and Redis, and proxies to them that can fail. Without a provider, unless `env`
 * names one.
 */
export async function startFaultWorld(options: FaultWorldOptions = {}) {
  const postgres = await startOwnPostgres(options.postgres);
  const redis = canStartRedis ? await startRedis(...(options.redisSettings ?? [])) : undefined;
  const lines = {
    postgres: await startFaultProxy(portOf(postgres.url)),
    redis: await startFaultProxy(portOf(redis?.url ?? "redis://127.0.0.1:9")),
  };
  const webPort = await findFreePort();
  const webhookUrl = `http://127.0.0.1:${webPort}/webhooks/live`;
  const audit = makeMirrorAudit(postgres.url);
  const common = {
    DATABASE_URL: through(postgres.url, lines.postgres),
    ...(redis ? { REDIS_URL: through(redis.url, lines.redis) } : {}),
    HOST: "127.0.0.1",
    PORT: String(webPort),
    ...LIVE_ENV,
    ...options.env,
  };
  const launch = (role: Role, env: Record<string, string> = {}, launching: { stderrTo?: string } = {}) =>
    startProgram([role], { ...common, ...env }, launching);
  return {
    postgres,
    /** Throws when no redis-server can be started; tests that need one do not run then. */
    get redis() {
      if (redis === undefined) throw new TypeError("there is no redis-server on this machine");
      return redis;
    },
    lines,
    /** Web's address, also after a restart. */
    webhookUrl,
    load: makeEventLoad(webhookUrl),
    audit,
    launch,
    /** Starts a role behind the proxies; resolves when it reports that it is ready. */
    async start(role: Role, env?: Record<string, string>) {
      const program = launch(role, env);
      await program.waitFor(role === "up" ? /poller is ready/ : new RegExp(`${role} is ready`));
      return program;
    },
    async close() {
      await stopPrograms();
      await audit.close();
      await redis?.stop();
      await postgres.remove();
      await Promise.all([lines.postgres.close(), lines.redis.close()]);
    },
  };
}

/** `url` through the proxy. */
export function through(url: string, line: FaultProxy): string {
  const changed = new URL(url);
  changed.port = String(line.port);
  return changed.href;
}

export function portOf(url: string): number {
  return Number(new URL(url).port);
}

/** Keeps roles running as an orchestrator does: restarts each process that ends. */
export interface Supervisor {
  /** The process of the role that runs now. */
  current(role: Role): RunningProgram | undefined;
  /** Exits of the program that nobody requested and nothing excuses. */
  readonly crashes: readonly string[];
  stop(): Promise<void>;
}

const RESTART_MS = 300;
/** Exit code when Postgres is unreachable at the start: try again later. */
const EXCUSED_CODE = 75;

/** Starts these roles, with further variables. */
export function superviseRoles(
  world: FaultWorld,
  roles: readonly Role[],
  env: Record<string, string> = {},
): Supervisor {
  const running = new Map<Role, RunningProgram>();
  const crashes: string[] = [];
  let stopping = false;

  async function keep(role: Role): Promise<void> {
    while (!stopping) {
      const program = world.launch(role, env);
      running.set(role, program);
      const { code, signal, stderr } = await program.ended;
      if (signal === null && code !== EXCUSED_CODE && !stopping) {
        crashes.push(`${role} ended with ${code}: ${readCause(stderr)}`);
      }
      await systemClock.sleep(RESTART_MS);
    }
  }
  const kept = roles.map(keep);
  return {
    current: (role) => running.get(role),
    crashes,
    async stop() {
      stopping = true;
      for (const program of running.values()) program.child.kill("SIGCONT");
      await Promise.all([...running.values()].map((program) => program.stop("SIGKILL")));
      await Promise.all(kept);
    },
  };
}

/** What a process wrote besides its log, and its last words there: its connections still log errors while they close. */
function readCause(stderr: string): string {
  const lines = stderr.trimEnd().split("\n");
  const notices = lines.filter((line) => !line.startsWith("{") || line.includes('"fatal"'));
  return [...notices, lines.at(-1) ?? ""].join("\n").slice(-2_000);
}
