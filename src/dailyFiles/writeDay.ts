import { createHash } from "node:crypto";
import { open } from "node:fs/promises";
import { setImmediate as nextTurn } from "node:timers/promises";
import { issueCertificate } from "../certificates/issue.ts";
import type { StoredCertificate } from "../certificates/certificates.sql.ts";
import type { SigningKeys } from "../certificates/signingKey.ts";
import { CERTIFICATE_ENTRY, readCertified } from "../certificates/statement.ts";
import type { Pool } from "../database/database.ts";
import { addSeconds } from "../domain/order/instant.ts";
import type { Instant } from "../domain/order/instant.ts";
import { readBranches } from "./dailyFiles.sql.ts";
import { makeOrderRow } from "./orderRow.ts";

const DAY_SECONDS = 86_400;
/** So many orders are read in one turn of the event loop, some 5 ms: the process may serve requests, too. */
const TURN_ORDERS = 100;

/** A finished file, with the certificate that it has. */
export interface WrittenDay {
  readonly certificate: StoredCertificate;
  readonly bytes: number;
  /** SHA-256 of the file, in hexadecimal. */
  readonly sha256: string;
}

/**
 * Writes the certified states of a day to `path` as Parquet, with the certificate and its figures as metadata, and
 * waits until they are on disk. The certificate is the day's last one if it still holds, else a new one: the file never
 * has other states than its certificate. Throws like issueCertificate, or with the reason of `signal`.
 */
export async function writeDay(asked: {
  readonly pool: Pool;
  readonly keys: SigningKeys;
  readonly sourceId: string;
  readonly since: Instant;
  readonly path: string;
  readonly signal: AbortSignal;
}): Promise<WrittenDay> {
  const { pool, keys, sourceId, since, path, signal } = asked;
  const toRow = makeOrderRow(sourceId, await readBranches(pool, sourceId));
  // Processes that write no file do not load it.
  const { beginParquetFile } = await import("../orders/export/parquetFile.ts");
  const sum = createHash("sha256");
  let bytes = 0;
  const handle = await open(path, "wx", 0o640);
  try {
    const file = beginParquetFile(async (part) => {
      sum.update(part);
      bytes += part.length;
      await handle.writeFile(part);
    });
    const onStates: NonNullable<Parameters<typeof issueCertificate>[0]["onStates"]> = async (states) => {
      for (let start = 0; start < states.length; start += TURN_ORDERS) {
        signal.throwIfAborted();
        await nextTurn();
        await file.add(states.slice(start, start + TURN_ORDERS).map(toRow));
      }
    };
    const period = { sourceId, since, until: addSeconds(since, DAY_SECONDS) };
    const certificate = await issueCertificate({ pool, keys, onStates }, period);
    await file.finish(describeCertificate(certificate));
    await handle.sync();
    return { certificate, bytes, sha256: sum.digest("hex") };
  } finally {
    await handle.close();
  }
}

function describeCertificate(certificate: StoredCertificate): Record<string, string> {
  const { predicate } = readCertified(certificate) ?? {};
  if (predicate === undefined) throw new TypeError("the certificate cannot be read");
  const { source, since, until, orders, gone, claimed, exceptions, breaches, proof, issuedAt, serial } =
    predicate;
  const figures = { source, since, until, orders, gone, claimed, issued_at: issuedAt, serial };
  const more = {
    exceptions: exceptions.length,
    breaches: breaches.length,
    safe_through: proof.safeThrough,
    digest: certificate.digest,
  };
  return {
    [CERTIFICATE_ENTRY]: certificate.envelope,
    ...Object.fromEntries(
      Object.entries({ ...figures, ...more }).map(([name, value]) => [`order_mirror.${name}`, String(value)]),
    ),
  };
}
