import type { Condition } from "../../../src/health/condition.ts";
import { CONDITIONS } from "../../../src/health/judge.ts";

/** Rules for what is visible only from outside; only Prometheus judges them, by a separate expression. */
export const OUTSIDE_CONDITIONS: readonly (Pick<
  Condition,
  "name" | "severity" | "measures" | "forSeconds" | "remedy"
> & { readonly expression: string })[] = [
  {
    name: "OrderMirrorAbsent",
    severity: "critical",
    measures: "no process can be scraped",
    forSeconds: 300,
    remedy:
      "Start the web process, or correct the scrape target. Until then events are refused, and polling must repair them.",
    expression: "absent(order_mirror_build_info)",
  },
  {
    name: "OrderMirrorDatabaseAway",
    severity: "critical",
    measures: "Postgres cannot be read",
    forSeconds: 120,
    remedy:
      "Bring Postgres back; `order-mirror doctor` says what is wrong. Until then events are answered with 503.",
    expression: "max(order_mirror_database_up) == 0",
  },
];

/** The parts of a rule of Prometheus. */
interface Rule {
  readonly name: string;
  readonly severity: string;
  readonly expression: string;
  readonly forSeconds: number;
  readonly summary: string;
  readonly description: string;
}

const capitalize = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** Conditions that are visible only from outside come first, as in docs/runbook.md. */
export function listRules(): Rule[] {
  const outside = OUTSIDE_CONDITIONS.map(({ measures, remedy, ...rest }): Rule => {
    return { ...rest, summary: `${capitalize(measures)}.`, description: remedy };
  });
  // The conditions already include how long each must hold, so no rule waits again.
  const judged = CONDITIONS.map(({ name, severity, label, measures, remedy }): Rule => {
    const series = `order_mirror_condition{condition="${name}"}`;
    const expression = label === null ? `max(${series}) == 1` : `max by (${label}) (${series}) == 1`;
    const subject = label === null ? "" : `{{ $labels.${label} }}: `;
    const summary = `${subject}${subject === "" ? capitalize(measures) : measures}.`;
    return { name, severity, expression, forSeconds: 0, summary, description: remedy };
  });
  return [...outside, ...judged];
}

/** The file config/prometheus/alerts.yml. Quoted strings are JSON, which YAML includes. */
export function renderRules(): string {
  const head = `# Alert rules for order-mirror, generated from the list of conditions in src/health by \`npm run alerts\`: do not edit.
# Load with \`rule_files: [alerts.yml]\`; tested by \`promtool test rules alerts.test.yml\`.
# order_mirror_condition is judged by times in Postgres, so an alert also fires when the process that updates one has died.
groups:
  - name: order-mirror
    rules:
`;
  return head + listRules().map(renderRule).join("\n");
}

function renderRule({ name, severity, expression, forSeconds, summary, description }: Rule): string {
  return [
    `      - alert: ${name}`,
    `        expr: ${expression}`,
    ...(forSeconds === 0 ? [] : [`        for: ${forSeconds}s`]),
    "        labels:",
    `          severity: ${severity}`,
    "        annotations:",
    `          summary: ${JSON.stringify(summary)}`,
    `          description: ${JSON.stringify(description)}`,
    `          runbook_url: ${addressOf(name)}`,
    "",
  ].join("\n");
}

function addressOf(name: string): string {
  return `docs/runbook.md#${name.toLowerCase()}`;
}
