import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import type { Step } from "../schema/migrations.ts";

const FILE = fileURLToPath(new URL("../../../config/postgres-roles.sql", import.meta.url));
const STATEMENT = /^(grant|revoke) ([\s\S]+?) on ([\s\S]+?) (?:to|from) ([\s\S]+?);/gm;
const WITH_COLUMNS = /^(\w+) \(([^)]+)\)$/;

/** One privilege that config/postgres-roles.sql grants to a group role. */
export interface Right {
  readonly role: string;
  readonly kind: "schema" | "table" | "sequence";
  /** With its schema; `mirror.*` means all tables or all sequences of the schema. */
  readonly object: string;
  /** The exceptions of `mirror.*`. */
  readonly except: readonly string[];
  readonly privilege: string;
  /** Null: on the whole object. */
  readonly column: string | null;
}

/** The SQL that grants each process its rights. */
export function readRolesFile(): Promise<string> {
  return readFile(FILE, "utf8");
}

/** Grants the group roles their rights. With `always`, also if they were granted before: they may have been revoked. */
export async function makeRolesStep({ always }: { always: boolean }): Promise<Step> {
  const sql = await readRolesFile();
  const checksum = createHash("sha256").update(sql).digest("hex");
  return { name: "roles", checksum, always, run: (client) => client.query(sql) };
}

/** The rights that each group role has after these statements. */
export function parseRights(sql: string): readonly Right[] {
  let rights: Right[] = [];
  for (const [, verb, privileges = "", objects = "", roles = ""] of withoutComments(sql).matchAll(
    STATEMENT,
  )) {
    const named = listRights({ privileges, objects, roles });
    if (verb === "grant") rights.push(...named);
    else for (const revoked of named) rights = rights.flatMap((right) => takeAway(right, revoked));
  }
  return rights;
}

function withoutComments(sql: string): string {
  return sql.replaceAll(/--.*$/gm, "");
}

function listRights(grant: { privileges: string; objects: string; roles: string }): Right[] {
  const [kind, objects] = listObjects(grant.objects.replaceAll(/\s+/g, " "));
  const privileges = splitList(grant.privileges).flatMap(splitColumns);
  return splitList(grant.roles).flatMap((role) =>
    objects.flatMap((object) =>
      privileges.map(([privilege, column]) => ({ role, kind, object, except: [], privilege, column })),
    ),
  );
}

function listObjects(objects: string): [Right["kind"], string[]] {
  const [, kind, schemas = ""] = /^all (table|sequence)s in schema (.+)$/.exec(objects) ?? [];
  if (kind !== undefined)
    return [kind as "table" | "sequence", splitList(schemas).map((name) => `${name}.*`)];
  const [, named] = /^schema (.+)$/.exec(objects) ?? [];
  return named === undefined ? ["table", splitList(objects)] : ["schema", splitList(named)];
}

/** `insert (a, b)` means insert on a and insert on b. */
function splitColumns(privilege: string): [string, string | null][] {
  const [, name, columns] = WITH_COLUMNS.exec(privilege) ?? [];
  if (name === undefined || columns === undefined) return [[privilege, null]];
  return splitList(columns).map((column) => [name, column]);
}

/** Splits at commas outside brackets. */
function splitList(text: string): string[] {
  return text.split(/,(?![^(]*\))/).map((each) => each.trim().replaceAll(/\s+/g, " "));
}

/** The rest of `right` after a revocation. */
function takeAway(right: Right, revoked: Right): Right[] {
  const concerned =
    right.role === revoked.role &&
    right.kind === revoked.kind &&
    (revoked.privilege === "all" || right.privilege === revoked.privilege);
  if (!concerned) return [right];
  if (right.object === revoked.object) return [];
  const [schema] = revoked.object.split(".");
  return right.object === `${schema}.*` ? [{ ...right, except: [...right.except, revoked.object] }] : [right];
}
