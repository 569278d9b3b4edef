import type pg from "pg";
import { ConfigurationError, UnavailableError } from "../../domain/errors.ts";
import { withClient } from "../database.ts";
import { readMigrations } from "../schema/migrationFiles.ts";
import { examineSchema, migrate } from "../schema/migrations.ts";
import { findObstacle } from "../schema/schemaState.ts";
import {
  beginFilling,
  beginReading,
  copyRoles,
  copySequences,
  emptyTables,
  estimateRows,
  insertRows,
  listOtherDatabases,
  listRelations,
  listSchemas,
  listTables,
  readExtent,
  readRows,
} from "./copyTables.sql.ts";
import type { Table } from "./copyTables.sql.ts";

export interface DatabaseCopy {
  /** What each table holds, on both servers alike. */
  readonly tables: readonly { readonly name: string; readonly rows: number }[];
  /** Relations that order-mirror did not create, and that are not in the copy. */
  readonly leftBehind: readonly string[];
}

export interface CopyOptions {
  /** Whether relations that order-mirror did not create may be left behind. */
  readonly leavesBehind: boolean;
  /** Creates in the new database what migrations do not; resolves with the schemas that are not copied. */
  readonly prepare: (old: pg.ClientBase, fresh: pg.ClientBase) => Promise<readonly string[]>;
  readonly onProgress?: (progress: { rows: number; estimated: number }) => void;
  readonly signal?: AbortSignal;
}

/**
 * Copies a mirror from an older server into an empty database: runs the migrations that ran there, then copies each row,
 * sequence and role, and compares the number and the content of the rows of every table.
 *
 * The old database is only read, in one transaction. Throws ConfigurationError when this program does not know its schema,
 * or when it holds other relations and `leavesBehind` is false; UnavailableError when the copy differs.
 */
export async function copyDatabase(
  fromUrl: string,
  toUrl: string,
  options: CopyOptions,
): Promise<DatabaseCopy> {
  await runSameMigrations(fromUrl, toUrl);
  return withClient(fromUrl, (old) => withClient(toUrl, (fresh) => copyAll(old, fresh, options)));
}

async function copyAll(
  old: pg.ClientBase,
  fresh: pg.ClientBase,
  options: CopyOptions,
): Promise<DatabaseCopy> {
  const without = await options.prepare(old, fresh);
  await beginReading(old);
  await beginFilling(fresh);
  const leftBehind = await findStrange({ old, fresh, without });
  if (leftBehind.length > 0 && !options.leavesBehind) throw refuseStrange(leftBehind);
  await copyRoles(old, fresh);
  const tables = await fillTables({ old, fresh, without, options });
  options.signal?.throwIfAborted();
  await fresh.query("commit");
  return { tables, leftBehind };
}

async function runSameMigrations(fromUrl: string, toUrl: string): Promise<void> {
  const state = await examineSchema(fromUrl);
  const obstacle = findObstacle(state) ?? state.findings.find(({ kind }) => kind === "newer");
  if (obstacle !== undefined) throw new ConfigurationError(obstacle.sentence, { fix: obstacle.fix });
  const pending = new Set(state.pending.map(({ name }) => name));
  const migrations = (await readMigrations()).filter(({ name }) => !pending.has(name));
  await migrate(toUrl, { migrations });
}

async function findStrange(deps: {
  old: pg.ClientBase;
  fresh: pg.ClientBase;
  without: readonly string[];
}): Promise<string[]> {
  const { old, fresh, without } = deps;
  const listAll = async (client: pg.ClientBase) =>
    listRelations(
      client,
      (await listSchemas(client)).filter((schema) => !without.includes(schema)),
    );
  const ours = new Set(await listAll(fresh));
  const others = await listOtherDatabases(old);
  const strange = (await listAll(old)).filter((name) => !ours.has(name));
  return [...others.map((name) => `the database ${name}`), ...strange];
}

function refuseStrange(names: readonly string[]): ConfigurationError {
  const [first, ...others] = names;
  const more = others.length === 0 ? "" : ` and ${others.length} more`;
  return new ConfigurationError(
    `The old Postgres holds ${first}${more}, which order-mirror did not make and cannot copy.`,
    { fix: "Drop it, or add --leave-behind: it then stays in the old folder alone." },
  );
}

async function fillTables(deps: {
  old: pg.ClientBase;
  fresh: pg.ClientBase;
  without: readonly string[];
  options: CopyOptions;
}): Promise<{ name: string; rows: number }[]> {
  const { old, fresh, without, options } = deps;
  const schemas = (await listSchemas(fresh)).filter((schema) => !without.includes(schema));
  const tables = await listTables(fresh, schemas);
  assertSameColumns(tables, await listTables(old, schemas));
  await emptyTables(fresh, tables);
  const estimated = await estimateRows(old, tables);
  let rows = 0;
  const filled: { name: string; rows: number }[] = [];
  for (const table of tables) {
    for await (const batch of readRows(old, table)) {
      options.signal?.throwIfAborted();
      await insertRows(fresh, table, batch);
      rows += batch.length;
      options.onProgress?.({ rows, estimated });
    }
    filled.push({ name: table.name, rows: await compareTable(old, fresh, table) });
  }
  await copySequences(old, fresh, schemas);
  return filled;
}

function assertSameColumns(tables: readonly Table[], before: readonly Table[]): void {
  for (const { name, columns } of tables) {
    const found = before.find((table) => table.name === name)?.columns.join(", ");
    if (found === columns.join(", ")) continue;
    throw new ConfigurationError(
      `${name} has other columns in the old database (${found ?? "none"}) than its migrations make.`,
      { fix: "Run the release that made it, and undo what was changed by hand." },
    );
  }
}

async function compareTable(old: pg.ClientBase, fresh: pg.ClientBase, table: Table): Promise<number> {
  const before = await readExtent(old, table);
  const after = await readExtent(fresh, table);
  if (before.rows === after.rows && before.hash === after.hash) return Number(after.rows);
  throw new UnavailableError(
    `The copy of ${table.name} is not the same: ${before.rows} rows in the old database, ${after.rows} in the new one${before.rows === after.rows ? ", with other content" : ""}.`,
    { fix: "Nothing was changed. Run it again; if it ends so again, go on with the release before." },
  );
}
