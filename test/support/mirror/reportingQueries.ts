import { readFileSync } from "node:fs";
import path from "node:path";

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

function asOf(sql: string, now: string): string {
  return sql
    .replaceAll("now()", `timestamptz '${now}'`)
    .replaceAll("current_date", `(timestamptz '${now}')::date`);
}

export interface Panel {
  readonly title: string;
  readonly queries: readonly string[];
}

interface Dashboard {
  readonly templating: { readonly list: readonly { readonly query: string; readonly type: string }[] };
  readonly panels: readonly {
    readonly title: string;
    readonly targets: readonly { readonly rawSql: string }[];
  }[];
}

/** Grafana's dashboard of the schema reporting, its macros expanded to the day before now. */
export function readDashboard(): { panels: Panel[]; sourceQuery: string } {
  const file = path.join(ROOT, "config/grafana/order-mirror-reporting.json");
  const { panels, templating } = JSON.parse(readFileSync(file, "utf8")) as Dashboard;
  return {
    panels: panels.map(({ title, targets }) => ({
      title,
      queries: targets.map(({ rawSql }) => expand(rawSql)),
    })),
    sourceQuery: templating.list.find(({ type }) => type === "query")?.query ?? "",
  };
}

/** Replacements for Grafana's macros. */
function expand(sql: string): string {
  return sql
    .replaceAll("${source:sqlstring}", "'live','test'")
    .replaceAll("$__timeFrom()", "(now() - interval '1 day')")
    .replaceAll(/\$__timeFilter\((\w+)\)/g, "$1 between now() - interval '1 day' and now()")
    .replaceAll(/\$__timeGroupAlias\((\w+), ?\$__interval\)/g, "date_bin('5 min', $1, 'epoch') as time");
}
