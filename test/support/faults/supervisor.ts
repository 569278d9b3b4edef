import { systemClock } from "../../../src/process/clock.ts";
import type { RunningProgram } from "../programs/program.ts";
import type { FaultWorld, Role } from "./faultWorld.ts";

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
