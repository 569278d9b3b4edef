import type { Queryable } from "../database/database.ts";
import { OrderMirrorError, UnavailableError } from "../domain/errors.ts";
import { formatInstant } from "../domain/order/instant.ts";
import type { Window } from "../domain/window/window.ts";
import { addStatement, lockChain, readDisproved } from "./certificates.sql.ts";
import { digestPayload, sealEnvelope } from "./envelope.ts";
import { readLaterBreaches } from "./periodStates.sql.ts";
import type { FoundBreach } from "./periodStates.sql.ts";
import type { SigningKey, SigningKeys } from "./signingKey.ts";
import { writeStatement } from "./statement.ts";
import type { Breach, Statement } from "./statement.ts";

/** The chain of the source ends with another key, whose private key is not here. */
class FormerKeyMissingError extends OrderMirrorError {
  override readonly name = "FormerKeyMissingError";
  override readonly retry = "never";
}

export interface ChainKeys {
  readonly keys: SigningKeys;
  /** Continue with a key that the former one has not signed: others must then be notified of it. Default false. */
  readonly acceptsNewKey?: boolean | undefined;
}

/** The link is added by the chain. */
type LinkName = "source" | "serial" | "previous" | "issuedAt";
type Addition = {
  [Kind in Statement["kind"]]: {
    readonly kind: Kind;
    readonly subject: string;
    readonly fields: Omit<Extract<Statement, { kind: Kind }>["predicate"], LinkName>;
  };
}[Statement["kind"]] & {
  readonly window: Window | null;
  readonly revokes?: number;
  readonly orders?: number;
};

export interface Chain {
  /** The last breach of the source, 0 if there was none; no other can be recorded before the transaction ends. */
  readonly lastBreach: string;
  /** How many certificates were revoked now. */
  readonly revoked: number;
  add(one: Addition): Promise<void>;
}

/**
 * Locks the chain of a source until the end of the transaction, and adds what is due: a statement about a new key, and
 * the revocation of each certificate that a breach has disproved. Throws FormerKeyMissingError, or UnavailableError if
 * the source was never polled.
 */
export async function openChain(
  client: Queryable,
  sourceId: string,
  { keys, acceptsNewKey = false }: ChainKeys,
): Promise<Chain> {
  const end = await lockChain(client, sourceId);
  if (end === undefined) throw new UnavailableError(`The source ${sourceId} was never polled.`);
  const [key] = keys;
  const { lastBreach } = end;
  const link = { serial: end.serial, previous: end.digest };
  const issuedAt = formatInstant(BigInt(end.now));

  async function add(
    { kind, subject, fields, window, revokes, orders }: Addition,
    signers: readonly SigningKey[],
  ) {
    const serial = link.serial + 1;
    const predicate = { source: sourceId, serial, previous: link.previous, issuedAt, ...fields };
    const payload = writeStatement({ kind, subject, predicate } as Statement);
    const digest = digestPayload(payload);
    await addStatement(client, {
      sourceId,
      serial,
      kind,
      window,
      orders: orders ?? null,
      lastBreach,
      revokes: revokes ?? null,
      digest,
      keyId: key.keyId,
      envelope: sealEnvelope(payload, signers),
    });
    Object.assign(link, { serial, previous: digest });
  }

  if (end.keyId !== key.keyId) {
    const former = keys.find(({ keyId }) => keyId === end.keyId);
    if (end.keyId !== null && former === undefined && !acceptsNewKey) throw makeFormerMissing(end.keyId);
    const fields = { publicKey: key.publicKey, replaces: end.keyId };
    const signers = former === undefined ? [key] : [key, former];
    await add({ kind: "key", subject: key.keyId, fields, window: null }, signers);
  }
  const disproved = await readDisproved(client, sourceId);
  for (const one of disproved) {
    const breaches = await readLaterBreaches(client, one, one.lastBreach);
    const fields = { ...describeWindow(one), revokes: one.serial, breaches: breaches.map(describeBreach) };
    await add({ kind: "revocation", subject: one.digest, fields, window: one, revokes: one.serial }, [key]);
  }
  return { lastBreach, revoked: disproved.length, add: (one) => add(one, [key]) };
}

function makeFormerMissing(keyId: string): FormerKeyMissingError {
  return new FormerKeyMissingError(
    `The certificates so far were signed by the key ${keyId}, which is not here.`,
    {
      fix: "Restore it in DATA_DIR or in CERTIFICATE_KEY, behind the new one. If it is lost: order-mirror certify --new-key, and tell everybody who checks certificates.",
    },
  );
}

/** A period as statements name it. */
export function describeWindow({ since, until }: Window): { since: string; until: string } {
  return { since: formatInstant(since), until: formatInstant(until) };
}

export function describeBreach(found: FoundBreach): Breach {
  const { updatedAt, foundAt, reprovedAt } = found;
  return {
    ...found,
    updatedAt: formatInstant(BigInt(updatedAt)),
    foundAt: formatInstant(BigInt(foundAt)),
    reprovedAt: reprovedAt === null ? null : formatInstant(BigInt(reprovedAt)),
  };
}
