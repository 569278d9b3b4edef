import { parseInstant } from "../domain/order/instant.ts";
import { openEnvelope } from "./envelope.ts";
import type { Opened } from "./envelope.ts";
import { readPublicKey } from "./signingKey.ts";
import type { VerifyingKey } from "./signingKey.ts";
import { readStatement } from "./statement.ts";
import type { Completeness, Statement } from "./statement.ts";

/** A certificate from a file whose signatures and links were verified. */
export interface CheckedCertificate {
  readonly predicate: Completeness;
  /** Digest of the certified states. */
  readonly subject: string;
  /** Whether a revocation follows it in the file. */
  readonly revoked: boolean;
}

export interface CheckedChain {
  /** The certificates of completeness, as far as the file could be verified. */
  readonly certificates: readonly CheckedCertificate[];
  readonly statements: number;
  /** Undefined if every signature and every link is right; else what is wrong, with the line. */
  readonly problem: string | undefined;
}

/**
 * Verifies statements of one source, one envelope per line, that follow each other in its chain. `trusted` must have
 * signed the first one; a later key must be signed by the key before it. Needs no database.
 */
export function checkChain(lines: readonly string[], trusted: VerifyingKey): CheckedChain {
  const certificates: { predicate: Completeness; subject: string; digest: string; revoked: boolean }[] = [];
  let key = trusted;
  let before: { statement: Statement; digest: string } | undefined;
  let problem: string | undefined;
  let statements = 0;
  for (const line of lines) {
    const opened = openEnvelope(line);
    const statement = opened && readStatement(opened.payload);
    problem = findProblem();
    if (problem !== undefined || opened === undefined || statement === undefined) break;
    statements += 1;
    if (statement.kind === "key") key = readPublicKey(statement.predicate.publicKey);
    if (statement.kind === "completeness") {
      certificates.push({ ...statement, digest: opened.digest, revoked: false });
    }
    if (statement.kind === "revocation") {
      for (const one of certificates) one.revoked ||= one.digest === statement.subject;
    }
    before = { statement, digest: opened.digest };

    function findProblem(): string | undefined {
      const at = `line ${statements + 1}: `;
      if (opened === undefined || statement === undefined) return `${at}not a statement of this format`;
      if (!opened.isSignedBy(key)) return `${at}not signed by the key ${key.keyId}`;
      const { source, serial, previous } = statement.predicate;
      if (statement.kind === "key" && !isOwnKey(opened, statement))
        return `${at}not signed by the key that it names`;
      if (before === undefined) return undefined;
      const { predicate } = before.statement;
      const follows =
        source === predicate.source && serial === predicate.serial + 1 && previous === before.digest;
      return follows ? undefined : `${at}does not follow the statement before it`;
    }
  }
  if (problem === undefined && statements === 0) problem = "the file is empty";
  return { certificates, statements, problem };
}

/** A key is named with its own signature, so that nobody can name a key that is not theirs. */
function isOwnKey(opened: Opened, { subject, predicate }: Extract<Statement, { kind: "key" }>): boolean {
  const named = readPublicKey(predicate.publicKey);
  return named.keyId === subject && opened.isSignedBy(named);
}

/** Whether the windows that a certificate lists cover its period without a gap. */
export function isCoveredByWindows({ since, until, proof }: Completeness): boolean {
  let reached = parseInstant(since);
  for (const window of proof.windows) {
    if (parseInstant(window.since) > reached) return false;
    const end = parseInstant(window.until);
    if (end > reached) reached = end;
  }
  return reached >= parseInstant(until);
}
