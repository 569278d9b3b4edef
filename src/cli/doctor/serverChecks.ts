import { listLostSettings, readLogin } from "../../database/logins.ts";
import { examineSchema } from "../../database/migrations.ts";
import { readReaderRole, readServerFacts, type ServerFacts } from "./serverFacts.sql.ts";
import { ok, problem, warning, type Check, type Patient, type Remark } from "./check.ts";

/** Postgres itself: version and durability. */
export const postgresCheck: Check = {
  name: "postgres",
  async run({ pool, database }) {
    const facts = await readServerFacts(pool);
    const remarks = judgeDurability(facts);
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
