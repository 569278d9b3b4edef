import { ConfigurationError, UnavailableError, type OrderMirrorError } from "../domain/errors.ts";
import { CONNECT_TIMEOUT_MS, withClient } from "./database.ts";
import { sqlState } from "./databaseErrors.ts";

// Sentences for whoever starts a process or runs a command. What receives, applies and polls does without them.

interface Failure {
  /** `Postgres at HOST`, or `Postgres` if the address is not known. */
  readonly server: string;
  readonly database: string;
  /** SQLSTATE, the error code of the system or of TLS, or the driver's message. */
  readonly code: string;
  /** The message of Postgres or the system. */
  readonly text: string;
}

interface Explanation {
  readonly sentence: string;
  readonly fix: string;
  readonly passes?: true;
}

const ENCODE = "In a password, write @ as %40, : as %3A, / as %2F, # as %23 and % as %25.";
/** The driver's message, which has no code. */
const NO_TLS = "The server does not support SSL connections";

const EXPLANATIONS: Readonly<Record<string, (failure: Failure) => Explanation>> = {
  "3D000": ({ server, database }) => ({
    sentence: `${server} has no database ${database}.`,
    fix: `Create it (createdb ${database}), or correct DATABASE_URL.`,
  }),
  "28000": (failure) =>
    failure.text.includes("no encryption")
      ? {
          sentence: `${failure.server} refuses connections without encryption.`,
          fix: "Add ?sslmode=verify-full to DATABASE_URL.",
        }
      : explainLogin(failure),
  "28P01": explainLogin,
  "42501": ({ server, text }) => ({
    sentence: `${server} denies this account: ${/permission denied.*|must be .*/.exec(text)?.[0] ?? "permission denied"}.`,
    fix: "Run `order-mirror migrate` as the owner of the database, who needs the right to create on the database and on schema public; other accounts get their rights from config/postgres-roles.sql.",
  }),
  "08P01": ({ server }) => ({
    sentence: `${server} is a pooler that refuses a setting of the session (statement_timeout).`,
    fix: "Set DATABASE_DIRECT_URL to Postgres itself: it says that DATABASE_URL leads to a pooler in transaction mode.",
  }),
  "25006": ({ server }) => ({
    sentence: `${server} is read-only, as a standby is.`,
    fix: "Point DATABASE_URL at the primary.",
  }),
  "53100": ({ server }) => ({
    sentence: `The disk of ${server} is full.`,
    fix: "Free space there. The mirror then continues by itself.",
    passes: true,
  }),
  "53300": ({ server }) => ({
    sentence: `${server} accepts no more connections.`,
    fix: "Raise max_connections, close idle connections, or put a pooler in front of it.",
    passes: true,
  }),
  "57P03": ({ server }) => ({
    sentence: `${server} is starting or stopping.`,
    fix: "Try again in a moment.",
    passes: true,
  }),
  [NO_TLS]: ({ server }) => ({
    sentence: `${server} does not encrypt connections, and the sslmode in DATABASE_URL asks for it.`,
    fix: "Set ssl = on in its postgresql.conf, with a certificate, or remove sslmode from DATABASE_URL.",
  }),
  ENOTFOUND: explainName,
  EAI_AGAIN: explainName,
  DEPTH_ZERO_SELF_SIGNED_CERT: explainCertificate,
  SELF_SIGNED_CERT_IN_CHAIN: explainCertificate,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: explainCertificate,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: explainCertificate,
  CERT_HAS_EXPIRED: (failure) => explainCertificateTime(failure, "has expired"),
  CERT_NOT_YET_VALID: (failure) => explainCertificateTime(failure, "is not valid yet"),
};

/**
 * Explains a database error to the person who set the database up; undefined if the error comes from elsewhere or only
 * says that a statement failed. `url` supplies the names of host and database; without it, only Postgres' own answers
 * are explained, because the missing host could be another server's.
 */
export function explainDatabaseError(error: unknown, url?: string): OrderMirrorError | undefined {
  const address = url === undefined ? undefined : new URL(url);
  const text = error instanceof Error ? error.message : "";
  const code = sqlState(error) ?? (address ? (systemCode(error) ?? text) : "");
  if (!Object.hasOwn(EXPLANATIONS, code)) return undefined;
  const explanation = EXPLANATIONS[code]?.({
    server: address ? `Postgres at ${address.host}` : "Postgres",
    database: address?.pathname.slice(1) || "of that name",
    code,
    text,
  });
  if (explanation === undefined) return undefined;
  const { sentence, fix, passes } = explanation;
  const Kind = passes ? UnavailableError : ConfigurationError;
  return new Kind(sentence, { cause: error, fix });
}

/** Version number, as in server_version_num. */
const OLDEST_SERVER = 140_000;
const STATEMENT_TIMEOUT_MS = 60_000;

/** Throws UnavailableError or ConfigurationError, in one sentence that names the host but no password. */
export async function assertReachable(url: string): Promise<void> {
  const { host } = new URL(url);
  // With a session setting, like our pools: a pooler in transaction mode then refuses it here and not later.
  const timeouts = { connectionTimeoutMillis: CONNECT_TIMEOUT_MS, statement_timeout: STATEMENT_TIMEOUT_MS };
  const { rows } = await withClient({ connectionString: url, ...timeouts }, (client) =>
    client.query<{ version: number }>("select current_setting('server_version_num')::int as version"),
  ).catch((error: unknown) => {
    const reason = systemCode(error) ?? (error instanceof Error ? error.message : "no reason given");
    const fix = "Start it, or correct DATABASE_URL.";
    const away = new UnavailableError(`Postgres at ${host} cannot be reached (${reason}).`, {
      cause: error,
      fix,
    });
    throw explainDatabaseError(error, url) ?? away;
  });
  const version = rows[0]?.version ?? OLDEST_SERVER;
  if (version >= OLDEST_SERVER) return;
  const sentence = `Postgres at ${host} is too old: version ${Math.floor(version / 10_000)}.`;
  throw new ConfigurationError(sentence, { fix: "Use PostgreSQL 14 or newer." });
}

function systemCode(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | undefined)?.code;
  return typeof code === "string" ? code : undefined;
}

function explainLogin({ server }: Failure): Explanation {
  return {
    sentence: `${server} refused the user or password of DATABASE_URL.`,
    fix: `Correct DATABASE_URL. ${ENCODE}`,
  };
}

function explainName({ server, code }: Failure): Explanation {
  return {
    sentence: `${server} cannot be reached (${code}): the host name does not exist.`,
    fix: `Correct DATABASE_URL. ${ENCODE}`,
    passes: true,
  };
}

function explainCertificate({ server, code }: Failure): Explanation {
  return {
    sentence: `${server} presents a certificate that is not trusted here (${code}).`,
    fix: "Give the file of its certificate authority in NODE_EXTRA_CA_CERTS, or with sslrootcert in DATABASE_URL.",
  };
}

/** A new authority would not help; a clock that is days off may be the cause. */
function explainCertificateTime({ server, code }: Failure, what: string): Explanation {
  return {
    sentence: `${server} presents a certificate that ${what} by this machine's clock (${code}).`,
    fix: "Renew the certificate; if its time is right, correct this machine's clock.",
  };
}
