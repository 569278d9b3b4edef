import { onConnection, inTransaction } from "../database/transaction.ts";
import type { Pool, Queryable } from "../database/database.ts";
import { beginSnapshot } from "../database/snapshot.sql.ts";
import { OrderMirrorError } from "../domain/errors.ts";
import type { Retry } from "../domain/errors.ts";
import { addSeconds, formatInstant } from "../domain/order/instant.ts";
import type { Instant } from "../domain/order/instant.ts";
import { lookbackFor } from "../domain/window/lateness.ts";
import { readCertificate } from "./certificates.sql.ts";
import type { StoredCertificate } from "./certificates.sql.ts";
import { describeBreach, describeWindow, openChain } from "./chain.ts";
import type { ChainKeys } from "./chain.ts";
import { makeMultisetHash } from "./multisetHash.ts";
import { readPeriodProof, readPeriodStates } from "./periodStates.sql.ts";
import type { FoundState, Period, PeriodProof } from "./periodStates.sql.ts";
import { readCertified } from "./statement.ts";
import type { Completeness } from "./statement.ts";

/** The period cannot be certified now, or never; the message says what is missing. */
export class PeriodNotProvedError extends OrderMirrorError {
  override readonly name = "PeriodNotProvedError";
  override readonly retry: Retry;

  constructor(message: string, { fix, retry }: { fix: string; retry: Retry }) {
    super(message, { fix });
    this.retry = retry;
  }
}

export interface Issuing extends ChainKeys {
  readonly pool: Pool;
  /** Called with each batch of certified states while the certificate is made. */
  readonly onStates?: (states: readonly FoundState[]) => Promise<void>;
}

/** A proof that covers the period of a certificate. */
type CoveringProof = PeriodProof & { readonly historySince: Instant; readonly safeThrough: Instant };

/**
 * The certificate of a period: the last one if it still holds and certifies the same states, else a new one.
 *
 * All that it says is read in one snapshot, and it is added only if no proof was withdrawn since: a later breach always
 * has a higher number than the certificate knows. Before that, certificates that breaches have disproved are revoked.
 * Throws PeriodNotProvedError, FormerKeyMissingError, or UnavailableError if the source was never polled.
 */
export async function issueCertificate(deps: Issuing, period: Period): Promise<StoredCertificate> {
  const { proof, counts, digest } = await onConnection(deps.pool, async (client) => {
    await beginSnapshot(client);
    const covering = assertCovers(await readPeriodProof(client, period), period);
    const summed = await sumStates(client, period, deps.onStates);
    await client.query("commit");
    return { proof: covering, ...summed };
  });
  await inTransaction(deps.pool, async (client) => {
    const chain = await openChain(client, period.sourceId, deps);
    if (chain.lastBreach !== proof.lastBreach) throw makeWithdrawn();
    const known = await readCertificate(client, period);
    if (known?.disprovedAt === null && readCertified(known)?.subject === digest) return;
    await chain.add({
      kind: "completeness",
      subject: digest,
      window: period,
      orders: counts.orders,
      fields: {
        ...describeWindow(period),
        ...counts,
        proof: describeProof(proof),
        exceptions: [...proof.exceptions],
        breaches: proof.breaches.map(describeBreach),
      },
    });
  });
  const issued = await readCertificate(deps.pool, period);
  if (issued === undefined) throw new TypeError("the certificate that was added is gone");
  return issued;
}

/** Revokes each certificate that a breach has disproved; resolves with how many. Throws FormerKeyMissingError. */
export async function revokeDisproved(
  deps: ChainKeys & { readonly pool: Pool },
  sourceId: string,
): Promise<number> {
  return inTransaction(deps.pool, async (client) => (await openChain(client, sourceId, deps)).revoked);
}

/**
 * The proof must reach beyond the period by as much as the horizon of a read lags behind: the delayed sweep has then
 * read its end again.
 */
function assertCovers(proof: PeriodProof | undefined, { since, until }: Period): CoveringProof {
  const { historySince = null, safeThrough = null } = proof ?? {};
  if (proof === undefined || historySince === null || safeThrough === null) {
    throw new PeriodNotProvedError("Nothing of this source is proved yet.", {
      fix: FIX_STATUS,
      retry: "later",
    });
  }
  if (since < historySince) {
    throw new PeriodNotProvedError(
      `The proof begins at ${formatInstant(historySince)}, after the period began.`,
      {
        fix: `Read the earlier part: order-mirror backfill --from ${formatInstant(since)}`,
        retry: "never",
      },
    );
  }
  const margin = lookbackFor(proof.tailSeconds);
  const needed = addSeconds(until, margin);
  if (safeThrough < needed) {
    const askAt = addSeconds(needed, proof.settleSeconds + proof.overlapSeconds);
    throw new PeriodNotProvedError(
      `Everything is proved up to ${formatInstant(safeThrough)}; a certificate needs ${formatInstant(needed)}, the end of the period and ${margin} seconds in which changes may come late.`,
      { fix: `Ask again after ${formatInstant(askAt, 0)}; if that is over: ${FIX_STATUS}`, retry: "later" },
    );
  }
  return { ...proof, historySince, safeThrough };
}

const FIX_STATUS = "order-mirror status shows how far polling is.";

function makeWithdrawn(): PeriodNotProvedError {
  const fix = "Try again.";
  return new PeriodNotProvedError("A proof was withdrawn while the certificate was made.", {
    fix,
    retry: "later",
  });
}

async function sumStates(client: Queryable, period: Period, onStates: Issuing["onStates"]) {
  const sum = makeMultisetHash(period.sourceId);
  const counts = { orders: 0, gone: 0, claimed: 0 };
  for await (const batch of readPeriodStates(client, period)) {
    const certified = batch.filter(({ state, gone }) => state !== null && !gone);
    for (const { state, gone, claimed, forgotten } of batch) {
      if (forgotten) throw makeForgotten();
      if (gone && state !== null) counts.gone += 1;
      else if (state !== null) sum.add(state);
      else if (claimed) counts.claimed += 1;
    }
    counts.orders += certified.length;
    await onStates?.(certified);
  }
  return { counts, digest: sum.digest() };
}

function makeForgotten(): PeriodNotProvedError {
  return new PeriodNotProvedError(
    "Retention has removed states of orders that have changed since the period.",
    {
      fix: "Certify a period before HISTORY_KEPT_FOR removes its history; polling does so by itself every day.",
      retry: "never",
    },
  );
}

function describeProof(proof: CoveringProof): Completeness["proof"] {
  const { provider, database, runs } = proof;
  return {
    provider,
    database,
    historySince: formatInstant(proof.historySince),
    safeThrough: formatInstant(proof.safeThrough),
    marginSeconds: lookbackFor(proof.tailSeconds),
    windows: runs.map(({ since, until, ...rest }) => ({
      ...describeWindow({ since: BigInt(since), until: BigInt(until) }),
      ...rest,
    })),
  };
}
