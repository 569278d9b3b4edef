import path from "node:path";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import * as catalogue from "../../../src/process/telemetry/metrics.ts";
import { CONDITIONS } from "../../../src/health/conditions/conditions.ts";
import type { Condition } from "../../../src/health/conditions/condition.ts";

/** Rules for what is visible only from outside; only Prometheus judges them, by a separate expression. */
const OUTSIDE_CONDITIONS: readonly (Pick<
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
function listRules(): Rule[] {
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
function renderRules(): string {
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

const FOLDER = path.resolve(import.meta.dirname, "../../../config");
const RULES = path.join(FOLDER, "prometheus/alerts.yml");
const PROMTOOL = process.env["PROMTOOL"] ?? "promtool";

function runs(...args: string[]): boolean {
  try {
    execFileSync(PROMTOOL, args, { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
const hasPromtool = runs("--version");
if (!hasPromtool) {
  process.stderr.write(
    "NOT RUN: promtool on the alert rules; it is not on the PATH (set PROMTOOL). Only their form was looked at.\n",
  );
}

/** Names under which a metric can be queried: a histogram has its own series. */
const ASKABLE = new Set(
  Object.values(catalogue).flatMap((metrics) =>
    Object.keys(metrics).flatMap((name) =>
      name in catalogue.HISTOGRAMS ? ["_bucket", "_sum", "_count"].map((suffix) => name + suffix) : [name],
    ),
  ),
);
const namesIn = (expression: string) => expression.match(/\border_mirror_\w+/g) ?? [];
const unknownNames = (expression: string) => namesIn(expression).filter((name) => !ASKABLE.has(name));

describe("the alert rules", () => {
  const text = readFileSync(RULES, "utf8");
  const rules = text.split(/^ {6}- alert: /m).slice(1);
  /** Reads to the next key of the rule, over one line or several. */
  const expressionOf = (rule: string) =>
    (/^ {8}expr: *(?:>-)?([^]*?)^ {8}\w+:/m.exec(rule)?.[1] ?? "").replaceAll(/\s+/g, " ");

  // `npm run alerts` updates the file after a condition has changed.
  it("match the list of conditions", async () => {
    await expect(renderRules()).toMatchFileSnapshot(RULES);
  });

  it.runIf(hasPromtool)("pass promtool's check and its own tests", () => {
    const run = (...args: string[]) => execFileSync(PROMTOOL, args, { stdio: "pipe" });
    expect(() => run("check", "rules", RULES)).not.toThrow();
    expect(() => run("test", "rules", path.join(FOLDER, "prometheus/alerts.test.yml"))).not.toThrow();
  });

  it("each link to a section of the runbook, which has no section without an alert", () => {
    const runbook = readFileSync(path.resolve(FOLDER, "../docs/runbook.md"), "utf8");
    const sections = runbook.split(/^## /m).slice(1);
    const names = rules.map((rule) => rule.split("\n")[0] ?? "");
    expect(sections.map((section) => section.split("\n")[0])).toEqual(names);
    for (const [index, rule] of rules.entries()) {
      expect(rule).toContain(`          runbook_url: docs/runbook.md#${names[index]?.toLowerCase()}\n`);
    }
    const links = [...runbook.matchAll(/\]\(#(\w+)\)/g)].map((match) => match[1] ?? "");
    const anchors = names.map((name) => name.toLowerCase());
    expect(links.filter((link) => !anchors.includes(link))).toEqual([]);
  });

  it("query only existing metrics", () => {
    for (const rule of rules) {
      const expression = expressionOf(rule);
      expect(namesIn(expression).length).toBeGreaterThan(0);
      expect({ expression, unknown: unknownNames(expression) }).toEqual({ expression, unknown: [] });
    }
  });

  it("are tested with existing series", () => {
    const tests = readFileSync(path.join(FOLDER, "prometheus/alerts.test.yml"), "utf8");
    expect(unknownNames(tests)).toEqual([]);
  });
});

interface Dashboard {
  readonly templating: { readonly list: readonly { readonly query: string }[] };
  readonly panels: readonly {
    readonly id: number;
    readonly title: string;
    readonly targets: readonly { readonly expr?: string }[];
  }[];
}

it("the Prometheus dashboard queries only existing metrics, and shows nearly all", () => {
  const file = path.join(FOLDER, "grafana/order-mirror-prometheus.json");
  const { panels, templating } = JSON.parse(readFileSync(file, "utf8")) as Dashboard;
  const expressions = panels.flatMap(({ targets }) => targets.map(({ expr = "" }) => expr));
  for (const expression of [...expressions, ...templating.list.map(({ query }) => query)]) {
    expect({ expression, unknown: unknownNames(expression) }).toEqual({ expression, unknown: [] });
  }
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  const shown = new Set(expressions.flatMap(namesIn));
  const hidden = [...ASKABLE].filter((name) => !shown.has(name) && !/_(sum|count)$/.test(name));
  expect(hidden).toEqual(["order_mirror_database_up", "order_mirror_poll_failing"]);
});
