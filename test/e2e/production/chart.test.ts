import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { SETTINGS } from "../../../src/config/settings.ts";
import { has, ROOT } from "../../support/programs/program.ts";

const run = promisify(execFile);
const VARIABLES = Object.values(SETTINGS).map(({ variable }) => variable);
const CHART = path.join(ROOT, "deploy/helm/order-mirror");
const ALERTS = path.join(ROOT, "config/prometheus/alerts.yml");
/** Where Debian's packages put Go libraries. */
const GO_LIBRARIES = "/usr/share/gocode";
const hasHelm = has("helm");
const canRender = hasHelm || (has("go") && existsSync(`${GO_LIBRARIES}/src/github.com/Masterminds/sprig`));
if (!canRender)
  // oxlint-disable-next-line no-console -- whoever runs the tests must know what they did not prove
  console.warn("NOT RUN: the Helm chart; install helm, or golang-go and the libraries of .ci/run.");

type Labels = Readonly<Record<string, string>>;
interface Selector {
  readonly matchLabels: Labels;
  readonly matchExpressions?: readonly { key: string; operator: string; values: readonly string[] }[];
}
interface Named {
  readonly name: string;
}
type Probe = "livenessProbe" | "readinessProbe" | "startupProbe";
interface Container extends Partial<Record<Probe, { readonly httpGet: { port: string } }>> {
  readonly args: readonly string[];
  readonly image: string;
  readonly env?: readonly Named[];
  readonly envFrom: readonly { configMapRef?: Named; secretRef?: Named }[];
  readonly ports?: readonly Named[];
  readonly securityContext: object;
  readonly volumeMounts: readonly Named[];
}
interface Template {
  readonly metadata: { labels: Labels };
  readonly spec: { containers: readonly Container[]; securityContext: object };
}
/** The parts of objects that the tests read. */
interface KubernetesObject {
  readonly kind: string;
  readonly metadata: Named;
  readonly data?: Labels;
  readonly spec?: Partial<Record<"selector" | "podSelector", Selector>> &
    Partial<Record<"policyTypes" | "egress" | "groups", unknown>> & { readonly template?: Template };
}

const EVERYTHING = {
  imagePullSecrets: [{ name: "registry" }],
  ingress: { enabled: true, className: "nginx", tlsSecret: "mirror-tls", annotations: { note: "yes" } },
  networkPolicy: {
    from: [{ podSelector: { matchLabels: { app: "ingress" } } }],
    egress: [{ ports: [{ port: 5432 }] }],
  },
  podMonitor: { enabled: true },
};

describe.runIf(canRender)("the Helm chart", () => {
  let folder: string;
  let plain: KubernetesObject[];
  let full: KubernetesObject[];

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), "order-mirror-chart-"));
    plain = await render("plain", {});
    full = await render("full", { ...EVERYTHING, prometheusRule: { rules: await readFile(ALERTS, "utf8") } });
  });
  afterAll(() => rm(folder, { recursive: true }));

  async function render(name: string, values: object): Promise<KubernetesObject[]> {
    const file = path.join(folder, `${name}.json`);
    await writeFile(file, JSON.stringify(values));
    if (hasHelm) await run("helm", ["lint", "--strict", CHART, "--values", file]);
    const { stdout } = hasHelm
      ? await run("helm", ["template", "mirror", CHART, "--values", file])
      : await run("go", ["run", path.join(ROOT, "test/support/programs/renderChart.go"), CHART, file], {
          env: { ...process.env, GO111MODULE: "off", GOPATH: GO_LIBRARIES, GOCACHE: path.join(folder, "go") },
        });
    const documents = parseAllDocuments(stdout);
    expect(documents.flatMap(({ errors, warnings }) => [...errors, ...warnings])).toEqual([]);
    return documents.flatMap((document) => (document.toJS() as KubernetesObject | null) ?? []);
  }

  const podsOf = (objects: readonly KubernetesObject[]) =>
    objects.flatMap(({ spec }) => (spec?.template ? [spec.template] : []));

  it("runs existing commands, with existing variables and objects", () => {
    const values = parse(readFileSync(path.join(CHART, "values.yaml"), "utf8")) as { secrets: Labels };
    const secrets = Object.values(values.secrets);
    for (const objects of [plain, full]) {
      const maps = new Map(
        objects.flatMap(({ kind, metadata, data }) =>
          kind === "ConfigMap" ? [[metadata.name, data ?? {}]] : [],
        ),
      );
      for (const data of maps.values()) expect(VARIABLES).toEqual(expect.arrayContaining(Object.keys(data)));
      const containers = podsOf(objects).flatMap(({ spec }) => spec.containers);
      expect(containers.map(({ args }) => args.join(" ")).sort()).toEqual([
        "migrate --roles",
        "poller",
        "web",
        "worker",
      ]);
      for (const { env = [], envFrom, volumeMounts } of containers) {
        expect(VARIABLES).toEqual(expect.arrayContaining(env.map(({ name }) => name)));
        const sources = envFrom.map(({ configMapRef, secretRef }) => (configMapRef ?? secretRef)?.name);
        expect([...maps.keys(), ...secrets]).toEqual(expect.arrayContaining(sources));
        expect(volumeMounts.map(({ name }) => name)).toContain("tmp");
      }
    }
  });

  it("selects existing pods and uses ports that they open", () => {
    const matches = ({ matchLabels, matchExpressions = [] }: Selector, labels: Labels) =>
      Object.entries(matchLabels).every(([name, value]) => labels[name] === value) &&
      matchExpressions.every(({ key, values }) => values.includes(labels[key] ?? ""));
    const components = (selector: Selector) =>
      podsOf(full)
        .map(({ metadata }) => metadata.labels)
        .filter((labels) => matches(selector, labels))
        .map((labels) => labels["app.kubernetes.io/component"] ?? "")
        .sort();
    const chosen = full.flatMap(({ kind, metadata, spec }) => {
      const selector = spec?.podSelector ?? spec?.selector;
      if (selector === undefined) return [];
      // A Service has its selector without matchLabels.
      const labels = "matchLabels" in selector ? selector : { matchLabels: selector as unknown as Labels };
      return [[`${kind} ${metadata.name.replace("mirror-order-mirror", "")}`.trim(), components(labels)]];
    });
    expect(Object.fromEntries(chosen)).toEqual({
      "Deployment -web": ["web"],
      "Deployment -worker": ["worker"],
      "Deployment -poller": ["poller"],
      "PodDisruptionBudget -web": ["web"],
      "PodDisruptionBudget -worker": ["worker"],
      "PodDisruptionBudget -poller": ["poller"],
      "NetworkPolicy -web": ["web"],
      "NetworkPolicy -others": ["migrate", "poller", "worker"],
      Service: ["web"],
      PodMonitor: ["migrate", "poller", "web", "worker"],
    });
    for (const { spec } of podsOf(full)) {
      expect(spec.securityContext).toMatchObject({ runAsNonRoot: true });
      for (const container of spec.containers) {
        const probes = [container.livenessProbe, container.readinessProbe, container.startupProbe];
        const asked = probes.flatMap((probe) => probe?.httpGet.port ?? []);
        expect((container.ports ?? []).map(({ name }) => name)).toEqual(expect.arrayContaining(asked));
        expect(container.securityContext).toMatchObject({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
        });
      }
    }
  });

  it("limits where the processes connect to if the values say so", () => {
    const policies = (objects: readonly KubernetesObject[]) =>
      objects
        .filter(({ kind }) => kind === "NetworkPolicy")
        .map(({ spec }) => [spec?.policyTypes, spec?.egress]);
    expect(policies(plain)).toEqual(Array(2).fill([["Ingress"], undefined]));
    expect(policies(full)).toEqual(Array(2).fill([["Ingress", "Egress"], [{ ports: [{ port: 5432 }] }]]));
  });

  it("contains the current alerts and the package's version", async () => {
    const rule = full.find(({ kind }) => kind === "PrometheusRule");
    const { groups } = parse(await readFile(ALERTS, "utf8")) as { groups: unknown };
    expect(rule?.spec?.groups).toEqual(groups);
    const { version } = JSON.parse(await readFile(path.join(ROOT, "package.json"), "utf8")) as {
      version: string;
    };
    for (const { spec } of podsOf(plain))
      for (const { image } of spec.containers) expect(image).toBe(`order-mirror:${version}`);
  });
});
