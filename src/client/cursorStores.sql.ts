import { readFile, rename, writeFile } from "node:fs/promises";

/** A place where a reader of the feed keeps its position. */
export interface CursorStore {
  /** The last saved position; undefined if there is none. */
  load(): Promise<string | undefined>;
  save(position: string): Promise<void>;
}

/** Keeps the position in a file, which is replaced as a whole. Its folder must exist. */
export function fileStore(path: string): CursorStore {
  return {
    async load() {
      try {
        const text = (await readFile(path, "utf8")).trim();
        return text === "" ? undefined : text;
      } catch (error) {
        if ((error as { code?: unknown }).code === "ENOENT") return undefined;
        throw error;
      }
    },
    async save(position) {
      const draft = `${path}.new`;
      await writeFile(draft, `${position}\n`);
      await rename(draft, path);
    },
  };
}

/** A pool or a client of the package `pg`, or anything with the same method. */
export interface PostgresClient {
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
}

/** A login without the right to make tables may use one that is there. */
const CREATE = `
  do $$ begin
    if to_regclass('order_mirror_cursors') is null then
      create table order_mirror_cursors (
        name     text primary key,
        position text not null,
        saved_at timestamptz not null default now()
      );
    end if;
  exception
    -- Another reader has made it at the same moment.
    when duplicate_table or duplicate_object or unique_violation then null;
  end $$`;

const SAVE = `
  insert into order_mirror_cursors (name, position) values ($1, $2)
  on conflict (name) do update set position = excluded.position, saved_at = now()`;

/**
 * Keeps the position in the table `order_mirror_cursors` of your own database, which it creates on first use, under a
 * name: one for each reader.
 */
export function postgresStore(client: PostgresClient, name: string): CursorStore {
  return {
    async load() {
      await client.query(CREATE);
      const { rows } = await client.query("select position from order_mirror_cursors where name = $1", [
        name,
      ]);
      return (rows as { position: string }[])[0]?.position;
    },
    async save(position) {
      await client.query(SAVE, [name, position]);
    },
  };
}
