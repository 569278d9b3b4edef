import { millisFromInstant } from "../domain/order/instant.ts";
import type { Instant } from "../domain/order/instant.ts";
import { systemClock } from "../runtime/lifecycle/clock.ts";
import { silentLogger } from "../runtime/telemetry/logger.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import { makeApiServer, makeUnreadableAnswer } from "./api/apiServer.ts";
import type { ControlDeps } from "./control/control.ts";
import { makeControlServer } from "./control/controlServer.ts";
import { holdWorld, makeSandboxPool, makeWriter } from "./world/database.ts";
import type { Pool, Write } from "./world/database.ts";
import { makeDeliverer } from "./events/deliverer.ts";
import { decide } from "./world/decisions.ts";
import type { Decisions } from "./world/decisions.ts";
import { makeDirectory } from "./world/directory.ts";
import { makeEndpoints } from "./api/endpoints.ts";
import { makeFaultSwitches } from "./control/faults.ts";
import type { Faults, FaultsPatch } from "./control/faults.ts";
import { makeFaultTimer } from "./control/faultTimer.ts";
import { setFleetSpeed } from "./fleet/fleet.ts";
import { makeJournal } from "./control/journal.ts";
import { makePromises } from "./fleet/promises.ts";
import { openServer } from "./http/openServer.ts";
import { makeRateLimiter } from "./api/rateLimits.ts";
import type { WindowKind } from "./api/rateLimits.ts";
import { makeRealClock, makeVirtualClock, VIRTUAL_START } from "./world/sandboxClock.ts";
import type { SandboxState } from "./world/sandboxState.ts";
import { makeTraffic } from "./fleet/traffic.ts";
import { setWebhook } from "./events/webhooks.ts";
import { makeTaskLoop } from "./fleet/taskLoop.ts";
import { saveClock, createWorld, readWorld } from "./world/world.sql.ts";
import { releaseDeliveries } from "./events/delivery.sql.ts";
import type { World } from "./world/world.sql.ts";

export interface SandboxOptions {
  readonly databaseUrl: string;
  /** 0: any free port. */
  readonly port: number;
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** Without it the world in the database is kept, whatever its seed; a new world has seed 1. */
  readonly seed?: number;
  /** Speed of the fleet as a multiple of real time; default 1, 0 stops it. */
  readonly speed?: number;
  /** Orders that the business creates automatically; default 0. */
  readonly trafficPerMinute?: number;
  /** Endpoints of the seeded organization `sandbox`. */
  readonly webhooks?: { readonly live?: EndpointOptions; readonly test?: EndpointOptions };
  /** Scheme of those endpoints: name of a preset or JSON; default standard-webhooks. */
  readonly scheme?: string;
  /** False: requests are not counted and the headers show full quotas. Default true. */
  readonly rateLimits?: boolean;
  /** Default `fixed`. */
  readonly rateWindow?: WindowKind;
  /** Default `real`; `virtual` does not move until it is advanced. */
  readonly clock?: "real" | "virtual";
  /** The start of a virtual clock in a new world; default 2026-01-05T08:00:00Z. */
  readonly clockStart?: Instant;
  /** What the spec leaves open, where it is not to be as assumed. */
  readonly decisions?: Partial<Decisions>;
  readonly faults?: FaultsPatch;
  /** The wait before the first retry of a delivery, in milliseconds; default 5,000. */
  readonly retryBaseMs?: number;
  /** Offset of displayed timestamps and of the local day; default +60. */
  readonly utcOffsetMinutes?: number;
  readonly mirrorPageOf?: ControlDeps["mirrorPageOf"];
  readonly logger?: Logger;
}

interface EndpointOptions {
  readonly url: string;
  readonly secret: string;
}

export interface Sandbox {
  /** Base address, without a trailing slash. The control page is at `/_sandbox` below it. */
  readonly url: string;
  readonly port: number;
  /** The provider's clock, without any injected skew. */
  readonly now: () => Instant;
  /** Virtual clock only: advances it by `ms` and runs everything that falls due on the way, each at its own instant. */
  readonly advance: (ms: number) => Promise<void>;
  /** Resolves when nothing is due and no delivery is under way. Pending retries do not count. */
  readonly idle: () => Promise<void>;
  readonly setFaults: (patch: FaultsPatch) => Faults;
  readonly clearFaults: () => Faults;
  /** Stops everything and resolves when it is down; the next start resumes unfinished work. */
  readonly close: () => Promise<void>;
}

const RETRY_BASE_MS = 5_000;
const UTC_OFFSET_MINUTES = 60;

/**
 * Starts a stand-in for the provider: the whole interface of the spec under `/v1`, and its control interface under
 * `/_sandbox`.
 *
 * Its state is in the database's schema `sandbox`, created if missing; a restart resumes where it left off. Throws
 * UnavailableError if the database or the port is unavailable or another sandbox uses the database, and
 * ConfigurationError for contradictory options.
 */
export async function startSandbox(options: SandboxOptions): Promise<Sandbox> {
  const pool = makeSandboxPool(options.databaseUrl);
  let letGo: () => void = () => undefined;
  try {
    letGo = await holdWorld(pool, systemClock);
    return await start(options, pool, letGo);
  } catch (error) {
    letGo();
    await pool.end();
    throw error;
  }
}

async function start(options: SandboxOptions, pool: Pool, letGo: () => void): Promise<Sandbox> {
  const stopping = new AbortController();
  const { signal } = stopping;
  let wake: () => void = () => undefined;
  const state = await makeState(options, pool, () => wake());
  await addWebhooks(state, options);
  const traffic = makeTraffic(state);
  const faultTimer = makeFaultTimer(state);
  const deliverer = makeDeliverer({ state, systemClock, signal });
  const loop = makeTaskLoop({ state, traffic, faultTimer, deliverer, systemClock, signal });
  wake = loop.wake;
  const stop = async () => {
    stopping.abort(new Error("the sandbox stops"));
    await loop.end();
    if (state.clock.kind === "virtual") await saveClock(pool, state.clock.now());
  };
  const server = await serve(options, { state, loop, traffic, faultTimer }, signal).catch(
    async (error: unknown) => {
      await stop();
      throw error;
    },
  );
  let closing: Promise<void> | undefined;
  const close = async () => {
    await server.close();
    await stop();
    letGo();
    await pool.end();
  };
  return {
    url: server.url,
    port: server.port,
    now: () => state.clock.now(),
    advance: (ms) => loop.advance(ms),
    idle: () => loop.idle(),
    setFaults: (patch) => {
      const faults = state.faults.set(patch);
      loop.wake();
      return faults;
    },
    clearFaults: () => {
      faultTimer.reset();
      return state.faults.clear();
    },
    close: () => (closing ??= close()),
  };
}

async function serve(
  options: SandboxOptions,
  parts: Pick<ControlDeps, "state" | "loop" | "traffic" | "faultTimer">,
  signal: AbortSignal,
) {
  const { state } = parts;
  const { host = "127.0.0.1", port, rateLimits = true, rateWindow = "fixed", mirrorPageOf } = options;
  const journal = makeJournal();
  const limiter = makeRateLimiter({
    nowMs: () => millisFromInstant(state.clock.now()),
    enforced: rateLimits,
    kind: rateWindow,
  });
  const endpoints = makeEndpoints(state);
  return openServer({
    answerApi: makeApiServer({ state, endpoints, limiter, journal, systemClock, signal }),
    answerUnreadable: makeUnreadableAnswer(state),
    answerControl: makeControlServer({ ...parts, journal, limiter, mirrorPageOf }),
    logger: state.logger,
    signal,
    host,
    port,
  });
}

async function makeState(options: SandboxOptions, pool: Pool, wake: () => void): Promise<SandboxState> {
  const write = makeWriter(pool);
  const world = await openWorld(pool, write, options.seed);
  const directory = makeDirectory();
  await directory.reload(pool);
  const state: SandboxState = {
    pool,
    write,
    clock:
      options.clock === "virtual"
        ? makeVirtualClock({ start: options.clockStart ?? VIRTUAL_START, now: world.clockNow })
        : makeRealClock(systemClock),
    faults: makeFaultSwitches(options.faults),
    directory,
    dials: {
      seed: world.seed,
      fleetSpeed: options.speed ?? 1,
      ordersPerMinute: options.trafficPerMinute ?? 0,
      retryBaseMs: options.retryBaseMs ?? RETRY_BASE_MS,
    },
    utcOffsetMinutes: options.utcOffsetMinutes ?? UTC_OFFSET_MINUTES,
    promises: makePromises(),
    decisions: decide(options.decisions),
    logger: options.logger ?? silentLogger,
    wake,
  };
  const { fleetSpeed } = state.dials;
  if (world.fleetSpeed !== fleetSpeed) await setFleetSpeed(state, fleetSpeed);
  return state;
}

async function addWebhooks(state: SandboxState, { webhooks, scheme }: SandboxOptions): Promise<void> {
  for (const mode of ["live", "test"] as const) {
    const endpoint = webhooks?.[mode];
    if (endpoint) await setWebhook(state, { organizationId: "sandbox", mode, scheme, ...endpoint });
  }
}

const SEED_DEFAULT = 1;

/** Opens the database's world, or creates one; a `seed` other than its own rebuilds it. */
async function openWorld(pool: Pool, write: Write, seed: number | undefined): Promise<World> {
  const known = await readWorld(pool);
  if (known && (seed === undefined || seed === known.seed)) {
    await releaseDeliveries(pool);
    return known;
  }
  const fresh = seed ?? SEED_DEFAULT;
  await write((connection) => createWorld(connection, fresh));
  return { seed: fresh, clockNow: null, fleetSpeed: null };
}
