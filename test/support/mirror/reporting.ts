import { readFileSync } from "node:fs";
import path from "node:path";
import { randomUUID } from "node:crypto";
import type pg from "pg";

const ROOT = path.resolve(import.meta.dirname, "../../..");

/** The document that describes the schema reporting. */
const REPORTING_DOCUMENT = path.join(ROOT, "docs/reporting.md");

/** Blocks of that document by the text after their fence, a regular expression. */
export function readBlocks(fence: string): string[] {
  const text = readFileSync(REPORTING_DOCUMENT, "utf8");
  return [...text.matchAll(new RegExp(`^\`\`\`${fence}\\n(.*?)^\`\`\``, "gms"))].map(
    (match) => match[1] ?? "",
  );
}

/** The questions of examples/questions.sql with their statements, as if it were the instant `now`. */
export function readQuestions(now: string): { question: string; sql: string }[] {
  const text = readFileSync(path.join(ROOT, "examples/questions.sql"), "utf8");
  return [...text.matchAll(/^-- (.+\?)\n([^;]*);\n/gm)].map(([, question = "", sql = ""]) => ({
    question,
    sql: asOf(sql, now),
  }));
}

/** The statement as if it were the instant `now`. */
export function asOf(sql: string, now: string): string {
  return sql
    .replaceAll("now()", `timestamptz '${now}'`)
    .replaceAll("current_date", `(timestamptz '${now}')::date`);
}

/** Grafana's dashboard of the schema reporting: the queries of its panels, their macros expanded to the day before now. */
export function readDashboard(): { queries: string[]; sourceQuery: string | undefined } {
  const file = path.join(ROOT, "config/grafana/order-mirror-reporting.json");
  const { panels, templating } = JSON.parse(readFileSync(file, "utf8")) as {
    templating: { list: { query: string; type: string }[] };
    panels: { targets: { rawSql: string }[] }[];
  };
  const queries = panels.flatMap(({ targets }) => targets.map(({ rawSql }) => expand(rawSql)));
  return { queries, sourceQuery: templating.list.find(({ type }) => type === "query")?.query };
}

/** Replacements for Grafana's macros. */
function expand(sql: string): string {
  return sql
    .replaceAll("${source:sqlstring}", "'live','test'")
    .replaceAll("$__timeFrom()", "(now() - interval '1 day')")
    .replaceAll(/\$__timeFilter\((\w+)\)/g, "$1 between now() - interval '1 day' and now()")
    .replaceAll(/\$__timeGroupAlias\((\w+), ?\$__interval\)/g, "date_bin('5 min', $1, 'epoch') as time");
}

/** A role that was admitted to the given sources, or to every source. */
export async function makeReader(owner: Pick<pg.Pool, "query">, ...sources: string[]) {
  const role = `reader_${randomUUID().replaceAll("-", "")}`;
  await owner.query(`create role ${role}`);
  if (sources.length === 0) await owner.query("call mirror.admit_reader($1)", [role]);
  for (const source of sources) await owner.query("call mirror.admit_reader($1, $2)", [role, source]);
  return {
    /** Name of a role without a password, for `set role`. */
    role,
    async drop() {
      await owner.query("call mirror.dismiss_reader($1)", [role]);
      await owner.query(`drop role ${role}`);
    },
  };
}

/** The rows that a statement gives a role, in a transaction with these settings, which is rolled back. */
export async function readAs(
  pool: pg.Pool,
  { role, settings = "" }: { role: string; settings?: string },
  text: string,
): Promise<Record<string, unknown>[]> {
  const client = await pool.connect();
  try {
    await client.query(`begin; set local role ${role}; ${settings}`);
    return (await client.query<Record<string, unknown>>(text)).rows;
  } finally {
    await client.query("rollback");
    client.release();
  }
}

/** A node of a plan, as `explain (format json)` gives it; actual figures are present with `analyze` only. */
export interface PlanNode {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Index Name"?: string;
  readonly "Index Cond"?: string;
  readonly "Actual Rows": number;
  readonly "Actual Loops": number;
  readonly "Rows Removed by Filter"?: number;
  readonly "Rows Removed by Index Recheck"?: number;
  readonly Plans?: readonly PlanNode[];
}

/** The node and all below it. */
export function listPlanNodes(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(listPlanNodes)];
}
