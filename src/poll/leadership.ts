import type { Pool } from "../database/database.ts";
import {
  acquireLease,
  makeLeaseLostError,
  releaseLease,
  renewLease,
  type Lease,
} from "../database/leases.sql.ts";
import type { Clock } from "../process/clock.ts";
import { makeLoop } from "../process/loop.ts";
import type { Logger } from "../process/telemetry/logger.ts";

/** A term of leadership, from taking the lease to losing it. */
export interface Term {
  readonly lease: Lease;
  /** Aborted with a LeaseLostError when the term ends. */
  readonly signal: AbortSignal;
  /** Throws LeaseLostError if the term has ended, as far as this process can know. */
  assertLeading(): void;
}

export interface Leadership {
  /** The current term, or a new one; undefined while another process leads. */
  readonly lead: () => Promise<Term | undefined>;
  /** Ends the term and lets the next leader in. */
  readonly resign: () => Promise<void>;
}

/** The number of renewal attempts within the lifetime of a lease. */
const RENEWALS_PER_TTL = 3;

interface OpenTerm extends Term {
  /** On the monotonic clock: nobody else can have taken the lease before this. */
  trustedUntilMs: number;
  end(reason: unknown): void;
}

/**
 * Holds a lease by renewing it until `resign`.
 *
 * The lease is trusted for a time counted from before each renewal, on the monotonic clock: the database counts from
 * later, and a process that was suspended finds its trust expired when it wakes.
 */
export function makeLeadership(deps: {
  pool: Pool;
  name: string;
  holder: string;
  ttlMs: number;
  clock: Clock;
  logger: Logger;
}): Leadership {
  const { pool, name, holder, ttlMs, clock, logger } = deps;
  let current: OpenTerm | undefined;

  async function lead(): Promise<Term | undefined> {
    if (current !== undefined && isTrusted(current, clock)) return current;
    current?.end(makeLeaseLostError(current.lease));
    current = undefined;
    const askedMs = clock.monotonicMs();
    const lease = await acquireLease(pool, { name, holder, ttlMs });
    if (lease === undefined) return undefined;
    current = openTerm(clock, lease, askedMs + ttlMs);
    keep(current);
    return current;
  }

  function keep(term: OpenTerm): void {
    const renewal = makeLoop({
      async run() {
        const askedMs = clock.monotonicMs();
        if (await renewLease(pool, term.lease, { ttlMs })) term.trustedUntilMs = askedMs + ttlMs;
        else endLost(term);
      },
      everyMs: ttlMs / RENEWALS_PER_TTL,
      pausesFirst: true,
      onError(error) {
        // The lease still holds; the next renewal may reach the database in time.
        if (isTrusted(term, clock)) return;
        logger.warn({ lease: name, err: error }, "could not renew the lease in time");
        endLost(term);
      },
      clock,
    });
    term.signal.addEventListener("abort", () => void renewal.stop());
    renewal.start();
  }

  function endLost(term: OpenTerm): void {
    if (term.signal.aborted) return;
    logger.warn({ lease: name, fence: String(term.lease.fence) }, "no longer leads");
    term.end(makeLeaseLostError(term.lease));
  }

  async function resign(): Promise<void> {
    const term = current;
    current = undefined;
    if (term === undefined) return;
    term.end(makeLeaseLostError(term.lease));
    await releaseLease(pool, term.lease);
  }

  return { lead, resign };
}

function openTerm(clock: Clock, lease: Lease, trustedUntilMs: number): OpenTerm {
  const over = new AbortController();
  const term: OpenTerm = {
    lease,
    trustedUntilMs,
    signal: over.signal,
    end: (reason) => over.abort(reason),
    assertLeading() {
      over.signal.throwIfAborted();
      if (!isTrusted(term, clock)) throw makeLeaseLostError(lease);
    },
  };
  return term;
}

function isTrusted(term: OpenTerm, clock: Clock): boolean {
  return !term.signal.aborted && clock.monotonicMs() < term.trustedUntilMs;
}
