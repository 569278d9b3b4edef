import path from "node:path";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { stringify } from "yaml";
import * as catalogue from "../../../src/process/telemetry/metrics.ts";
import { CONDITIONS } from "../../../src/health/conditions/conditions.ts";
import type { Condition } from "../../../src/health/conditions/condition.ts";
import { has } from "../../support/programs/program.ts";

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

const capitalize = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** Conditions that are visible only from outside come first, as in docs/runbook.md. */
const RULES = [
  ...OUTSIDE_CONDITIONS.map(({ expression, forSeconds, ...condition }) =>
    makeRule(condition, { expr: expression, for: `${forSeconds}s`, of: "" }),
  ),
  // The conditions already include how long each must hold, so no rule waits again.
  ...CONDITIONS.map(({ label, ...condition }) => {
    const by = label === null ? "" : ` by (${label}) `;
    const expr = `max${by}(order_mirror_condition{condition="${condition.name}"}) == 1`;
    return makeRule(condition, { expr, of: label === null ? "" : `{{ $labels.${label} }}: ` });
  }),
];

function makeRule(
  { name, severity, measures, remedy }: Pick<Condition, "name" | "severity" | "measures" | "remedy">,
  { of, ...when }: { expr: string; for?: string; of: string },
) {
  return {
    alert: name,
    ...when,
    labels: { severity },
    annotations: {
      summary: `${of === "" ? capitalize(measures) : of + measures}.`,
      description: remedy,
      runbook_url: `docs/runbook.md#${name.toLowerCase()}`,
    },
  };
}

/** The file config/prometheus/alerts.yml. */
const renderRules = () =>
  `# Alert rules for order-mirror, generated from the list of conditions in src/health by \`npm run alerts\`: do not edit.
# Load with \`rule_files: [alerts.yml]\`; tested by \`promtool test rules alerts.test.yml\`.
# order_mirror_condition is judged by times in Postgres, so an alert also fires when the process that updates one has died.
${stringify({ groups: [{ name: "order-mirror", rules: RULES }] }, { lineWidth: 0 })}`;

const FOLDER = path.resolve(import.meta.dirname, "../../../config");
const RULES_FILE = path.join(FOLDER, "prometheus/alerts.yml");
const PROMTOOL = process.env["PROMTOOL"] ?? "promtool";
const hasPromtool = has(PROMTOOL);
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
  // `npm run alerts` updates the file after a condition has changed.
  it("match the list of conditions", async () => {
    await expect(renderRules()).toMatchFileSnapshot(RULES_FILE);
  });

  it.runIf(hasPromtool)("pass promtool's check and its own tests", () => {
    const run = (...args: string[]) => execFileSync(PROMTOOL, args, { stdio: "pipe" });
    expect(() => run("check", "rules", RULES_FILE)).not.toThrow();
    expect(() => run("test", "rules", path.join(FOLDER, "prometheus/alerts.test.yml"))).not.toThrow();
  });

  it("each have a section of the runbook, whose links lead to others", () => {
    const runbook = readFileSync(path.resolve(FOLDER, "../docs/runbook.md"), "utf8");
    const names = RULES.map(({ alert }) => alert);
    expect([...runbook.matchAll(/^## (.*)/gm)].map(([, section]) => section)).toEqual(names);
    const anchors = names.map((name) => name.toLowerCase());
    const links = [...runbook.matchAll(/\]\(#(\w+)\)/g)].map(([, link = ""]) => link);
    expect(links.filter((link) => !anchors.includes(link))).toEqual([]);
  });

  it.each(["alerts.yml", "alerts.test.yml"])("query only existing metrics, in %s", (file) => {
    const text = readFileSync(path.join(FOLDER, "prometheus", file), "utf8");
    expect(namesIn(text).length).toBeGreaterThan(0);
    expect(unknownNames(text)).toEqual([]);
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
