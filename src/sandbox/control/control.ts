import { z } from "zod";
import type { Mode } from "../../domain/source/orderSource.ts";
import type { Journal } from "./journal.ts";
import type { RateLimiter } from "../api/rateLimits.ts";
import type { FaultTimer } from "./faultTimer.ts";
import type { DirectoryContent } from "../world/directory.ts";
import { readContent, saveContent } from "../world/world.sql.ts";
import type { SandboxState } from "../world/sandboxState.ts";
import type { Traffic } from "../fleet/traffic.ts";
import type { TaskLoop } from "../fleet/taskLoop.ts";

export interface ControlDeps {
  readonly state: SandboxState;
  readonly loop: TaskLoop;
  readonly traffic: Traffic;
  readonly faultTimer: FaultTimer;
  readonly journal: Journal;
  readonly limiter: RateLimiter;
  /** The address of an order's page in a mirror of the organization `sandbox`; without it the page links to none. */
  readonly mirrorPageOf?: ((order: { mode: Mode; reference: string }) => string) | undefined;
}

export interface Control {
  readonly method: "GET" | "POST" | "DELETE";
  /** Below /_sandbox; `:name` matches one path segment. */
  readonly path: string;
  readonly summary: string;
  /** Called with the path's parameters and the unchecked body or query. */
  readonly run: (input: { params: Readonly<Record<string, string>>; given: unknown }) => Promise<unknown>;
}

/** Defines an action; `schema` checks its input and refuses unknown fields. */
export function control<Schema extends z.ZodType>(
  [method, path, summary]: [Control["method"], string, string],
  schema: Schema,
  run: (given: z.infer<Schema>, params: Readonly<Record<string, string>>) => Promise<unknown>,
): Control {
  return {
    method,
    path,
    summary,
    run: ({ params, given }) => run(schema.parse(given ?? {}), params),
  };
}

/** Applies a dashboard change, so that the next request and the next event see it. */
export async function applyChange(
  state: SandboxState,
  change: (content: DirectoryContent) => Partial<DirectoryContent>,
): Promise<void> {
  await state.write(async (connection) => {
    const content = await readContent(connection);
    await saveContent(connection, { ...content, ...change(content) });
  });
  await state.directory.reload(state.pool);
  state.wake();
}

/** Fields shared by many actions. Numbers and flags may also arrive as the text of a form. */
export const fields = {
  organization: z.string().max(100).default("sandbox"),
  mode: z.enum(["live", "test"]).default("live"),
  count: (max: number) => z.coerce.number().int().min(1).max(max),
  flag: z.union([z.boolean(), z.enum(["true", "false"]).transform((text) => text === "true")]),
  ms: z.coerce
    .number()
    .int()
    .min(0)
    .max(86_400_000 * 366),
} as const;
