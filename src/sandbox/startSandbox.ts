/**
 * A stand-in for the provider: the whole interface of the spec under /v1 (`api/`), signed events (`events/`), and a
 * control interface with a page under /_sandbox (`control/`).
 *
 * It has its own database schema, its own clock and its own invented world (`world/`): a fleet that moves orders, a
 * business that creates them, faults that a real provider may have. Everything random depends on the seed, so that the
 * same requests give the same world. `taskLoop.ts` does what falls due. Start at `startSandbox`.
 */
import { createServer } from "node:http";
import express from "express";
import { millisFromInstant, type Instant } from "../domain/order/instant.ts";
import type { Mode } from "../domain/source/orderSource.ts";
import { listenOn, localUrl } from "../process/httpServer.ts";
import { systemClock } from "../process/clock.ts";
import { silentLogger, type Logger } from "../process/telemetry/logger.ts";
import { addApi, makeJournal, refuseMalformed } from "./api/app.ts";
import { makeRateLimiter, type WindowKind } from "./api/rateLimits.ts";
import { addControls, type ControlDeps } from "./control/control.ts";
import { makeControls } from "./control/controls.ts";
import { makeFaultSwitches, type FaultsPatch } from "./control/faults.ts";
import { renderPage } from "./control/page.ts";
import { makeDeliverer, setWebhook, type WebhookRequest } from "./events/events.ts";
import { makeTaskLoop } from "./taskLoop.ts";
import { makeDirectory, seedDirectory, type DirectoryContent } from "./world/directory.ts";
import { makeTraffic, setFleetSpeed } from "./world/fleet.ts";
import {
  decide,
  makeQuotes,
  makeRealClock,
  makeVirtualClock,
  VIRTUAL_START,
  type Decisions,
  type SandboxState,
} from "./world/state.ts";
import {
  createWorld,
  holdWorld,
  makeSandboxPool,
  makeWriter,
  readWorld,
  saveClock,
  type Pool,
  type Write,
} from "./world/world.sql.ts";

export interface SandboxOptions {
  readonly databaseUrl: string;
  /** 0: any free port. */
  readonly port: number;
  /** The world's seed. Without it the world in the database is kept, whatever its seed; a new world has seed 1. */
  readonly seed?: number;
  /** Speed of the fleet as a multiple of real time; default 1, 0 stops it. */
  readonly speed?: number;
  /** Orders that the business creates automatically; default 0. */
  readonly trafficPerMinute?: number;
  /** Endpoints of the seeded organization `sandbox`. */
  readonly webhooks?: Partial<Record<Mode, Pick<WebhookRequest, "url" | "secret">>>;
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
  /** Decisions about what the spec leaves open, where it is not to be as assumed. */
  readonly decisions?: Partial<Decisions>;
  readonly faults?: FaultsPatch;
  /** The wait before the first retry of a delivery, in milliseconds; default 5,000. */
  readonly retryBaseMs?: number;
  /** Offset of displayed timestamps and of the local day; default +60. */
  readonly utcOffsetMinutes?: number;
  readonly mirrorPageOf?: ControlDeps["mirrorPageOf"];
  readonly logger?: Logger;
}

/** Where every sandbox listens. */
export const HOST = "127.0.0.1";
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
export async function startSandbox(options: SandboxOptions) {
  const pool = makeSandboxPool(options.databaseUrl);
  let releaseLock: () => void = () => undefined;
  try {
    releaseLock = await holdWorld(pool);
    return await start(options, pool, releaseLock);
  } catch (error) {
    releaseLock();
    await pool.end();
    throw error;
  }
}

async function start(options: SandboxOptions, pool: Pool, releaseLock: () => void) {
  const stopping = new AbortController();
  const { signal } = stopping;
  let wake: () => void = () => undefined;
  const state = await makeState(options, pool, () => wake());
  for (const mode of ["live", "test"] as const) {
    const endpoint = options.webhooks?.[mode];
    const { scheme } = options;
    if (endpoint) await setWebhook(state, { organizationId: "sandbox", mode, scheme, ...endpoint });
  }
  const traffic = makeTraffic(state);
  const deliverer = makeDeliverer({ state, signal });
  const loop = makeTaskLoop({ state, traffic, deliverer, systemClock, signal });
  wake = loop.wake;
  const stop = async () => {
    stopping.abort(new Error("the sandbox stops"));
    await loop.end();
    if (state.clock.kind === "virtual") await saveClock(pool, state.clock.now());
  };
  const server = await serve(options, { state, loop, traffic }, signal).catch(async (error: unknown) => {
    await stop();
    throw error;
  });
  let closing: Promise<void> | undefined;
  const close = async () => {
    await server.close();
    await stop();
    releaseLock();
    await pool.end();
  };
  return {
    /** Base address, without a trailing slash. The control page is at `/_sandbox` below it. */
    url: server.url,
    port: server.port,
    /** The provider's clock, without any injected skew. */
    now: () => state.clock.now(),
    /** Virtual clock only: advances it and runs everything that falls due on the way, each at its own instant. */
    advance: (ms: number) => loop.advance(ms),
    /** Resolves when nothing is due and no delivery is under way. Pending retries do not count. */
    idle: () => loop.idle(),
    setFaults: (patch: FaultsPatch) => {
      const faults = state.faults.set(patch);
      loop.wake();
      return faults;
    },
    /** Stops everything and resolves when it is down; the next start resumes unfinished work. */
    close: () => (closing ??= close()),
  };
}

/** Starts listening. Throws UnavailableError if the port is taken. */
async function serve(
  options: SandboxOptions,
  parts: Pick<ControlDeps, "state" | "loop" | "traffic">,
  signal: AbortSignal,
) {
  const { state } = parts;
  const { port, rateLimits = true, rateWindow = "fixed", mirrorPageOf } = options;
  const journal = makeJournal();
  const nowMs = () => millisFromInstant(state.clock.now());
  const limiter = makeRateLimiter({ nowMs, enforced: rateLimits, kind: rateWindow });
  const deps = { ...parts, journal, mirrorPageOf };
  const app = express();
  app.disable("x-powered-by");
  addControls(app, makeControls(deps), { state, renderPage: (notice) => renderPage(deps, notice) });
  addApi(app, { state, limiter, journal, systemClock, signal });
  const server = createServer({ requireHostHeader: false }, app);
  // Without it, Node answers an unknown expectation itself, without the rates.
  server.on("checkExpectation", app);
  server.on("clientError", (error, socket) => refuseMalformed(state, error, socket));
  const bound = await listenOn(server, { host: HOST, port, portVariable: "SANDBOX_PORT" });
  return {
    url: localUrl(HOST, bound),
    port: bound,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function makeState(options: SandboxOptions, pool: Pool, wake: () => void): Promise<SandboxState> {
  const write = makeWriter(pool);
  const world = await openWorld(pool, write, options.seed);
  const state: SandboxState = {
    pool,
    write,
    clock:
      options.clock === "virtual"
        ? makeVirtualClock(world.clockNow ?? options.clockStart ?? VIRTUAL_START)
        : makeRealClock(systemClock),
    faults: makeFaultSwitches(options.faults),
    directory: makeDirectory(world.directory),
    dials: {
      seed: world.seed,
      fleetSpeed: options.speed ?? 1,
      ordersPerMinute: options.trafficPerMinute ?? 0,
      retryBaseMs: options.retryBaseMs ?? RETRY_BASE_MS,
    },
    quotes: makeQuotes(),
    utcOffsetMinutes: options.utcOffsetMinutes ?? UTC_OFFSET_MINUTES,
    decisions: decide(options.decisions),
    logger: options.logger ?? silentLogger,
    wake,
  };
  await setFleetSpeed(state, state.dials.fleetSpeed);
  return state;
}

const SEED_DEFAULT = 1;

/** Opens the database's world, or creates one; a `seed` other than its own rebuilds it. */
async function openWorld(pool: Pool, write: Write, seed: number | undefined) {
  const known = await readWorld<DirectoryContent>(pool);
  if (known && (seed === undefined || seed === known.seed)) return known;
  const fresh = seed ?? SEED_DEFAULT;
  const directory = seedDirectory(fresh);
  await write((connection) => createWorld(connection, fresh, directory));
  return { seed: fresh, directory, clockNow: null };
}
