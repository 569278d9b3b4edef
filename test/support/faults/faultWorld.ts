import { afterAll } from "vitest";
import { systemClock } from "../../../src/process/clock.ts";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import {
  LIVE_ENV,
  type Role,
  type RunningProgram,
  startProgram,
  startRole,
  stopPrograms,
} from "../programs/program.ts";
import { startFaultProvider } from "../providers/faultProvider.ts";
import { startOwnPostgres } from "../servers/ownPostgres.ts";
import { canStartRedis, startRedis } from "../servers/redis.ts";
import { makeEventLoad } from "./events.ts";
import { portOf, startFaultProxy, through } from "./faultProxy.ts";
import { makeMirrorAudit } from "./mirrorAudit.ts";

interface FaultWorldOptions {
  readonly postgres?: Parameters<typeof startOwnPostgres>[0];
  readonly redisSettings?: readonly string[];
  /** Further variables of every program. */
  readonly env?: Record<string, string>;
  /** When it closes: after the file's tests, or at the end of one with `onTestFinished`. */
  readonly ends?: (close: () => Promise<void>) => void;
}

export type FaultWorld = Awaited<ReturnType<typeof startFaultWorld>>;

/**
 * The built program, with its own Postgres and Redis, and proxies to them that can fail. Without a provider, unless `env`
 * names one.
 */
export async function startFaultWorld({
  postgres: kind,
  redisSettings = [],
  env: further = {},
  ends = afterAll,
}: FaultWorldOptions = {}) {
  const postgres = await startOwnPostgres(kind);
  const redis = canStartRedis ? await startRedis(...redisSettings) : undefined;
  const lines = {
    postgres: await startFaultProxy(portOf(postgres.url)),
    redis: await startFaultProxy(portOf(redis?.url ?? "redis://127.0.0.1:9")),
  };
  const port = await findFreePort();
  const webhookUrl = `http://127.0.0.1:${port}/webhooks/live`;
  const audit = makeMirrorAudit(postgres.url);
  const common = {
    ...LIVE_ENV,
    DATABASE_URL: through(postgres.url, lines.postgres),
    ...(redis ? { REDIS_URL: through(redis.url, lines.redis) } : {}),
    HOST: "127.0.0.1",
    PORT: String(port),
    ...further,
  };
  ends(async () => {
    await stopPrograms();
    await audit.close();
    await redis?.stop();
    await postgres.remove();
    await Promise.all([lines.postgres.close(), lines.redis.close()]);
  });
  return {
    postgres,
    /** There only where one can be started; tests that need it do not run elsewhere. */
    redis: redis!,
    lines,
    /** Web's address, also after a restart. */
    webhookUrl,
    load: makeEventLoad(webhookUrl),
    audit,
    launch: (role: Role, env: Record<string, string> = {}, options: { stderrTo?: string } = {}) =>
      startProgram([role], { ...common, ...env }, options),
    /** Starts a role behind the proxies; resolves when it reports that it is ready. */
    start: (role: Role, env: Record<string, string> = {}) => startRole(role, { ...common, ...env }),
  };
}

/** The same with a provider, whose line can fail, too. */
export async function startWorldAndProvider(
  sandbox: Parameters<typeof startFaultProvider>[0],
  ends: NonNullable<FaultWorldOptions["ends"]> = afterAll,
) {
  const provider = await startFaultProvider(sandbox);
  ends(() => provider.close());
  return { provider, world: await startFaultWorld({ env: provider.env, ends }) };
}

const RESTART_MS = 300;
/** Exit code when Postgres is unreachable at the start: try again later. */
const EXCUSED_CODE = 75;

export type Supervisor = ReturnType<typeof superviseRoles>;

/** Keeps these roles running as an orchestrator does: restarts each process that ends. With further variables. */
export function superviseRoles(
  world: Pick<FaultWorld, "launch">,
  roles: readonly Role[],
  env: Record<string, string> = {},
) {
  const running = new Map<Role, RunningProgram>();
  /** Exits of the program that nobody requested and nothing excuses. */
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
    /** The process of the role that runs now. */
    current: (role: Role) => running.get(role),
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
