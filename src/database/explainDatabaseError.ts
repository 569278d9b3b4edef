import { ConfigurationError, UnavailableError } from "../domain/errors.ts";
import type { OrderMirrorError } from "../domain/errors.ts";
import { sqlState } from "./databaseErrors.ts";

/** What a sentence about the failure can name. */
interface Failure {
  /** `Postgres at HOST`, or `Postgres` where the address is not known. */
  readonly server: string;
  readonly database: string;
  /** SQLSTATE, or the code of the system or of TLS. */
  readonly code: string;
  /** As Postgres or the system put it. */
  readonly text: string;
}

interface Explanation {
  readonly sentence: string;
  readonly fix: string;
  /** It may pass by itself. */
  readonly passes?: true;
}

const ENCODE = "In a password @ is written %40, : %3A, / %2F and # %23.";

const EXPLANATIONS: Readonly<Record<string, (failure: Failure) => Explanation>> = {
  "3D000": ({ server, database }) => ({
    sentence: `${server} has no database ${database}.`,
    fix: `Create it (createdb ${database}), or correct DATABASE_URL.`,
  }),
  "28000": (failure) =>
    failure.text.includes("no encryption")
      ? {
          sentence: `${failure.server} lets nobody in without encryption.`,
          fix: "Add ?sslmode=verify-full to DATABASE_URL.",
        }
      : explainLogin(failure),
  "28P01": explainLogin,
  "42501": ({ server, text }) => ({
    sentence: `${server} gives this account too few rights: ${/permission denied.*|must be .*/.exec(text)?.[0] ?? "permission denied"}.`,
    fix: "Run `order-mirror migrate` as the owner of the database, who needs the right to create on the database and on schema public; other accounts get their rights from config/postgres-roles.sql.",
  }),
  "08P01": ({ server }) => ({
    sentence: `${server} is a pooler that refuses a setting of the session (statement_timeout).`,
    fix: "Set DATABASE_DIRECT_URL to Postgres itself: it says that DATABASE_URL leads to a pooler in transaction mode.",
  }),
  "25006": ({ server }) => ({
    sentence: `${server} is read-only, as a standby is.`,
    fix: "Point DATABASE_URL at the primary; a standby goes into DATABASE_READ_URL.",
  }),
  "53300": ({ server }) => ({
    sentence: `${server} takes no more connections.`,
    fix: "Raise max_connections, end what holds them, or put a pooler before it.",
    passes: true,
  }),
  "57P03": ({ server }) => ({
    sentence: `${server} is starting or stopping.`,
    fix: "Try again in a moment.",
    passes: true,
  }),
  ENOTFOUND: explainName,
  EAI_AGAIN: explainName,
  DEPTH_ZERO_SELF_SIGNED_CERT: explainCertificate,
  SELF_SIGNED_CERT_IN_CHAIN: explainCertificate,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: explainCertificate,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: explainCertificate,
  CERT_HAS_EXPIRED: explainCertificate,
};

/**
 * What is wrong with the database, and what to do about it, for the person who set it up; undefined when the error
 * comes from elsewhere or says no more than that a statement failed. `url` gives the names of host and database; without
 * it only what Postgres itself answered is explained, as another server's host may be missing too.
 */
export function explainDatabaseError(error: unknown, url?: string): OrderMirrorError | undefined {
  const address = url === undefined ? undefined : new URL(url);
  const code = sqlState(error) ?? (address ? String((error as { code?: unknown } | undefined)?.code) : "");
  if (!Object.hasOwn(EXPLANATIONS, code)) return undefined;
  const explanation = EXPLANATIONS[code]?.({
    server: address ? `Postgres at ${address.host}` : "Postgres",
    database: address?.pathname.slice(1) || "of that name",
    code,
    text: error instanceof Error ? error.message : "",
  });
  if (explanation === undefined) return undefined;
  const { sentence, fix, passes } = explanation;
  const Kind = passes ? UnavailableError : ConfigurationError;
  return new Kind(sentence, { cause: error, fix });
}

function explainLogin({ server }: Failure): Explanation {
  return {
    sentence: `${server} refused the user or password of DATABASE_URL.`,
    fix: `Correct DATABASE_URL. ${ENCODE}`,
  };
}

function explainName({ server, code }: Failure): Explanation {
  return {
    sentence: `${server} cannot be reached (${code}): there is no host of that name.`,
    fix: `Correct DATABASE_URL. ${ENCODE}`,
    passes: true,
  };
}

function explainCertificate({ server, code }: Failure): Explanation {
  return {
    sentence: `${server} shows a certificate that is not trusted here (${code}).`,
    fix: "Name the file of its authority in NODE_EXTRA_CA_CERTS, or with sslrootcert in DATABASE_URL.",
  };
}
