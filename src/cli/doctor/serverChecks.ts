import { listLostSettings, readLogin } from "../../database/logins.ts";
import { examineSchema } from "../../database/migrations.ts";
import { mayWorkersEndLongReads } from "../../database/longReads.sql.ts";
import { readReaderRole, readServerFacts } from "../../health/serverFacts.sql.ts";
import type { ServerFacts } from "../../health/serverFacts.sql.ts";
import { millisFromInstant } from "../../domain/order/instant.ts";
import { ok, problem, warning } from "./check.ts";
import type { Check, Patient, Remark } from "./check.ts";
import type { Config } from "../../runtime/config/config.ts";

export const SKEW_NOTED_SECONDS = 5;

/** Postgres itself: version, durability, clock. */
export const postgresCheck: Check = {
  name: "postgres",
  async run({ pool, database, clock }) {
    const askedAt = millisFromInstant(clock.now()) / 1_000;
    const facts = await readServerFacts(pool);
    const answeredAt = millisFromInstant(clock.now()) / 1_000;
    const remarks = [...judgeDurability(facts), ...judgeClock(facts.now, askedAt, answeredAt)];
    if (remarks.length > 0) return remarks;
    const place = database.embedded ? "embedded" : "DATABASE_URL";
    return [ok(`PostgreSQL ${facts.version} (${place}), synchronous_commit ${facts.synchronousCommit}.`)];
  },
};

function judgeDurability({ fsync, fullPageWrites, synchronousCommit }: ServerFacts): Remark[] {
  const noFsync = problem(
    "fsync is off: a power cut can lose acknowledged events and destroy the database.",
    "psql: alter system set fsync = on; then restart Postgres.",
  );
  const tornPages = warning(
    "full_page_writes is off: a power cut can tear pages of the database.",
    "psql: alter system set full_page_writes = on; select pg_reload_conf();",
  );
  const noWait = problem(
    "synchronous_commit is off: events are acknowledged before they are on disk.",
    "psql: alter system set synchronous_commit = on; select pg_reload_conf();",
  );
  return [
    ...(fsync ? [] : [noFsync]),
    ...(fullPageWrites ? [] : [tornPages]),
    ...(synchronousCommit === "off" ? [noWait] : []),
  ];
}

/** The server read its clock at some moment between question and answer. */
function judgeClock(serverNow: number, askedAt: number, answeredAt: number): Remark[] {
  const skew =
    serverNow < askedAt ? askedAt - serverNow : serverNow > answeredAt ? serverNow - answeredAt : 0;
  if (skew <= SKEW_NOTED_SECONDS) return [];
  return [
    warning(
      `The clock of the Postgres server differs from this machine's by ${Math.round(skew)} s.`,
      "Run a time service (chrony, systemd-timesyncd) on both.",
    ),
  ];
}

export const migrationsCheck: Check = {
  name: "migrations",
  async run({ database }) {
    const { findings } = await examineSchema(database.url);
    if (findings.length === 0) return [ok("The schema is current.")];
    return findings.map(({ kind, sentence, fix }) =>
      kind === "newer" ? warning(sentence, fix) : problem(sentence, fix),
    );
  },
};

/** The login in DATABASE_URL. */
export const loginCheck: Check = {
  name: "login",
  async run({ pool, database }) {
    const { login, isOwner, groups } = await readLogin(pool);
    const lost = await listLostSettings(pool);
    if (lost.length > 0)
      return [
        problem(
          `The database lost settings, as in a restore: ${lost.join("; ")}.`,
          "Run `order-mirror migrate --roles` as the owner of the database.",
        ),
      ];
    if (isOwner && database.embedded)
      return [ok("The check runs as the owner; the processes have their own logins.")];
    if (isOwner)
      return [ok(`${login} owns the mirror: right for migrate and commands, but more than a process needs.`)];
    if (groups.length > 0) return [ok(`${login} has the rights of ${groups.join(", ")}.`)];
    const fix =
      "psql, as the owner: grant order_mirror_web, order_mirror_worker or order_mirror_poller to it.";
    return [problem(`The login ${login} has the rights of none of the processes.`, fix)];
  },
};

export const readerCheck: Check = {
  name: "reader role",
  async run({ pool, database }) {
    const role = await readReaderRole(pool);
    if (role === "ready" && !(await mayWorkersEndLongReads(pool))) {
      const sentence = "Reports that run too long cannot be ended: a session may raise its own limits.";
      const fix =
        "Have an administrator run: grant pg_signal_backend, pg_read_all_stats to the worker's login.";
      return [warning(sentence, fix)];
    }
    if (role === "ready") return [ok("order_mirror_reader may read the schema reporting, and nothing else.")];
    const what =
      role === "missing"
        ? "The role order_mirror_reader is missing, so reporting tools would need the owner's rights."
        : "The role order_mirror_reader lacks its rights to the schema reporting.";
    return [problem(what, prepareReader(database))];
  },
};

function prepareReader({ embedded }: Patient["database"]): string {
  const call = "call mirror.prepare_reader();";
  return embedded ? `psql: ${call}` : `psql "$DATABASE_URL" -c '${call}', as a user who may create roles.`;
}

/** A secret with fewer different characters is a pattern, whatever its length. */
const DIFFERENT_MIN = 6;
const PASSWORD_LENGTH_ADVISED = 16;

/** Checks whether passwords and tokens can be guessed. */
export const secretsCheck: Check = {
  name: "secrets",
  run({ config }) {
    const remarks = listWeak(config);
    return Promise.resolve(
      remarks.length > 0 ? remarks : [ok("No password or token is too short or a simple pattern.")],
    );
  },
};

function listWeak({ opsPassword, opsViewerPassword, metricsToken, apiTokens }: Config): Remark[] {
  const passwords = [
    { name: "OPS_PASSWORD", secret: opsPassword ?? "" },
    { name: "OPS_VIEWER_PASSWORD", secret: opsViewerPassword ?? "" },
  ].filter(({ secret }) => secret !== "");
  const tokens = [
    ...(metricsToken === null ? [] : [{ name: "METRICS_TOKEN", secret: metricsToken }]),
    ...apiTokens.map(({ token }, place) => ({ name: `Entry ${place + 1} of API_TOKENS`, secret: token })),
  ];
  const patterns = [...passwords, ...tokens].filter(({ secret }) => new Set(secret).size < DIFFERENT_MIN);
  const short = passwords.filter(({ secret }) => secret.length < PASSWORD_LENGTH_ADVISED);
  const fix = "Create a new one with: openssl rand -hex 24";
  return [
    ...patterns.map(({ name }) => warning(`${name} repeats only a few characters.`, fix)),
    ...short.map(({ name }) => warning(`${name} has fewer than ${PASSWORD_LENGTH_ADVISED} characters.`, fix)),
  ];
}
