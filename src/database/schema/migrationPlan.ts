import type { Migration } from "./migrationFiles.ts";

export type Blocks = "reads and writes" | "writes" | "nothing";
/** The work under the lock: none that grows with the table, or reading, indexing or rewriting all of it. */
export type Work = "none" | "scan" | "index" | "rewrite";

export interface TableLock {
  /** As written in the statement. */
  readonly table: string;
  readonly blocks: Blocks;
  readonly work: Work;
}

export interface PlannedMigration {
  readonly name: string;
  readonly statements: number;
  /** Locks on existing tables, the strongest per table; empty: the migration only adds new objects. */
  readonly locks: readonly TableLock[];
  /** Statements that this program cannot assess, by their first words. */
  readonly unjudged: readonly string[];
}

const STRENGTH: readonly Blocks[] = ["nothing", "writes", "reads and writes"];
const EFFORT: readonly Work[] = ["none", "scan", "index", "rewrite"];

/** The locks of each of these migrations, run in this order. */
export function planMigrations(migrations: readonly Migration[]): readonly PlannedMigration[] {
  const created = new Set<string>();
  return migrations.map(({ name, sql }) => {
    const locks = new Map<string, TableLock>();
    const unjudged: string[] = [];
    const statements = splitStatements(sql);
    for (const statement of statements) {
      for (const made of listCreated(statement)) created.add(made);
      const found = judgeStatement(statement);
      if (found === undefined) unjudged.push(statement.split(" ").slice(0, 3).join(" "));
      for (const lock of found ?? []) {
        if (!created.has(lock.table)) locks.set(lock.table, strongest(lock, locks.get(lock.table)));
      }
    }
    return { name, statements: statements.length, locks: [...locks.values()], unjudged };
  });
}

function listCreated(statement: string): string[] {
  const [, table] = /^create (?:unlogged )?table (?:if not exists )?([\w.]+)/.exec(statement) ?? [];
  if (table !== undefined) return [table];
  const [, index, schema] =
    /^create (?:unique )?index (?:concurrently )?(?:if not exists )?(\w+) on (?:only )?(\w+)\./.exec(
      statement,
    ) ?? [];
  return index === undefined ? [] : [`${schema}.${index}`];
}

function strongest(one: TableLock, other: TableLock = one): TableLock {
  const blocks = STRENGTH.indexOf(one.blocks) > STRENGTH.indexOf(other.blocks) ? one.blocks : other.blocks;
  const work = EFFORT.indexOf(one.work) > EFFORT.indexOf(other.work) ? one.work : other.work;
  return { table: one.table, blocks, work };
}

/** The statements of a file in lower case, with single spaces and without comments, strings and function bodies. @internal */
export function splitStatements(sql: string): readonly string[] {
  const bare = sql.replaceAll(/--[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^']|'')*'|\$(\w*)\$[\s\S]*?\$\1\$/g, (found) =>
    /^(?:--|\/\*)/.test(found) ? " " : "''",
  );
  const statements = bare
    .split(";")
    .map((statement) => statement.trim().replaceAll(/\s+/g, " ").toLowerCase());
  return statements.filter((statement) => statement !== "");
}

const REFERENCES = /\breferences ([\w.]+)/g;
const REWRITES =
  /\btype\b|\bgenerated\b|\bserial\b|\bidentity\b|\bdefault (?:random|gen_random|clock_timestamp|nextval)/;
const SCANS = /\bset not null\b|\badd (?:constraint|check|foreign key)\b|\bvalidate constraint\b/;
const INDEXES = /\b(?:primary key|unique)\b/;
/** These take no table lock that others notice. */
const HARMLESS =
  /^(?:create (?:or replace )?(?:temporary )?(?:schema|view|function|procedure|type|sequence|role|domain|aggregate|table|unlogged)|comment|grant|revoke|alter default privileges|alter (?:function|procedure|role|sequence|view)|drop (?:function|procedure|view|sequence|type)|call|do|set|select|with)\b/;

/** The locks of one statement from splitStatements; undefined if the statement is unknown. @internal */
export function judgeStatement(statement: string): readonly TableLock[] | undefined {
  const referenced = [...statement.matchAll(REFERENCES)].map(([, table = ""]): TableLock => ({
    table,
    blocks: "writes",
    work: "none",
  }));
  const own = judgeOwn(statement);
  if (own === undefined) return HARMLESS.test(statement) ? referenced : undefined;
  return [own, ...referenced];
}

function judgeOwn(statement: string): TableLock | undefined {
  const altered = /^alter table (?:if exists )?(?:only )?([\w.]+) (.*)$/.exec(statement);
  if (altered !== null) {
    const [, table = "", change = ""] = altered;
    const blocks = /^add (?:constraint \w+ )?foreign key/.test(change) ? "writes" : "reads and writes";
    return { table, blocks, work: judgeChange(change) };
  }
  const indexed = /^create (?:unique )?index (concurrently )?.*?\bon (?:only )?([\w.]+)/.exec(statement);
  if (indexed !== null)
    return {
      table: indexed[2] ?? "",
      blocks: indexed[1] === undefined ? "writes" : "nothing",
      work: "index",
    };
  const [, written] =
    /^(?:insert into|update(?: only)?|delete from(?: only)?) ([\w.]+)/.exec(statement) ?? [];
  // Only the changed rows are locked.
  if (written !== undefined) return { table: written, blocks: "nothing", work: "scan" };
  const [, triggered] =
    /^create (?:or replace )?(?:constraint )?trigger .*? on ([\w.]+)/.exec(statement) ?? [];
  if (triggered !== undefined) return { table: triggered, blocks: "writes", work: "none" };
  // The lock is on the index's table, which the statement does not name.
  const [, gone] =
    /^(?:drop index (?:if exists )?|drop table (?:if exists )?|truncate (?:table )?|lock table |drop trigger .*? on )([\w.]+)/.exec(
      statement,
    ) ?? [];
  return gone === undefined ? undefined : { table: gone, blocks: "reads and writes", work: "none" };
}

function judgeChange(change: string): Work {
  if (REWRITES.test(change)) return "rewrite";
  if (INDEXES.test(change)) return "index";
  return SCANS.test(change) && !/\bnot valid\b/.test(change) ? "scan" : "none";
}
