import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { parse } from "yaml";
import { makeProgram } from "../../../src/cli/program.ts";

const ROOT = path.resolve(import.meta.dirname, "../../..");
const read = (file: string) => readFileSync(path.join(ROOT, file), "utf8");

const manifest = JSON.parse(read("package.json")) as {
  license: string;
  bin: Record<string, string>;
  scripts: Record<string, string>;
  engines: { node: string };
};
const MAIN = manifest.bin["order-mirror"] ?? "";
const commands = (await makeProgram()).commands.map((command) => command.name());

describe("the program", () => {
  it("is built from an existing source file, and starts with a shebang", () => {
    const source = MAIN.replace(/^dist\/(.*)\.js$/, "src/$1.ts");
    expect(source).not.toBe(MAIN);
    expect(read(source)).toMatch(/^#!\/usr\/bin\/env node\n/);
  });

  it.each(commands)("loads only the file of the command for %s", async (name) => {
    const loaded = (await makeProgram(name)).commands.map((command) => command.name());
    expect(loaded).toContain(name);
    const roles = ["up", "web", "worker", "poller"];
    const others = roles.includes(name) ? roles : commands.filter((one) => !roles.includes(one));
    expect(loaded.filter((one) => !others.includes(one))).toEqual([]);
    expect(loaded.length).toBeLessThanOrEqual(roles.length);
  });
});

/** Keeps each role below 150 MB and its pauses short. docs/performance.md explains why, and the bench measures with it. */
const NODE_OPTIONS = ["--max-semi-space-size=4", "--single-threaded-gc", "--no-allocation-site-pretenuring"];

it("the Procfile names existing commands, one per role", () => {
  const lines = read("Procfile").trim().split("\n");
  const roles = lines.map((line) => {
    const [, role, options = "", main, command] =
      /^(\w+): (?:\w+=\S+ )*node ((?:--\S+ )*)(\S+) (\w+)$/.exec(line) ?? [];
    expect({ line, main }).toEqual({ line, main: MAIN });
    expect(options.split(" ").filter(Boolean)).toEqual(role === "release" ? [] : NODE_OPTIONS);
    expect(commands).toContain(command);
    return role;
  });
  expect(roles).toEqual(["release", "web", "worker", "poller"]);
});

describe("the image", () => {
  const dockerfile = read("Dockerfile");

  it("starts the program as an ordinary user, with an existing command", () => {
    expect(dockerfile).toContain(
      `ENTRYPOINT ${JSON.stringify(["node", ...NODE_OPTIONS, MAIN]).replaceAll(",", ", ")}`,
    );
    expect(commands).toContain(/^CMD \["(\w+)"\]$/m.exec(dockerfile)?.[1]);
    expect(dockerfile.indexOf("USER node")).toBeGreaterThan(dockerfile.lastIndexOf("RUN "));
  });

  it("uses the Node release with long-term support that continuous integration tests", () => {
    const [, major = "none"] = /^FROM node:(\d+)-slim AS build/.exec(dockerfile) ?? [];
    expect(dockerfile.match(/^FROM node:\d+-slim/gm)).toEqual([
      `FROM node:${major}-slim`,
      `FROM node:${major}-slim`,
    ]);
    expect(read(".ci/run")).toContain(`.ci/on-node ${major}\n`);
  });

  it("copies only files that the build context allows, and allows nothing else", () => {
    const letIn = read(".dockerignore")
      .split("\n")
      .filter((line) => line.startsWith("!"))
      .map((line) => line.slice(1));
    const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap((match) =>
      match[1]!.split(" "),
    );
    expect([...new Set(copied)].sort()).toEqual([...letIn].sort());
    expect(read(".dockerignore")).toMatch(/^\*$/m);
    for (const entry of letIn) expect(existsSync(path.join(ROOT, entry))).toBe(true);
  });
});

describe("docker-compose.yml", () => {
  const text = read("docker-compose.yml");
  const compose = parse(text, { merge: true }) as {
    services: Record<
      string,
      { command?: string[]; environment?: Record<string, string>; secrets?: string[] }
    >;
    secrets: Record<string, { file: string }>;
  };
  const services = Object.entries(compose.services);

  it("runs existing commands, with existing variables: migrate first, then the roles", () => {
    const ours = services.filter(([name]) => !["postgres", "valkey"].includes(name));
    expect(ours.map(([name]) => name)).toEqual(["migrate", "web", "worker", "poller"]);
    const known = [...read(".env.example").matchAll(/^([A-Z_]+)=/gm)].map((match) => match[1]);
    for (const [name, { command, environment = {} }] of ours) {
      expect(command).toEqual(name === "migrate" ? ["migrate", "--roles"] : [name]);
      expect(commands).toContain(name);
      const names = Object.keys(environment).map((variable) => variable.replace(/_FILE$/, ""));
      expect(names).toContain("DATABASE_URL");
      expect(known).toEqual(expect.arrayContaining(names));
    }
  });

  it("gives each container only its own secrets, from files that make-secrets creates", () => {
    for (const [name, { file }] of Object.entries(compose.secrets)) expect(file).toBe(`./secrets/${name}`);
    // Postgres' container reads the logins' passwords from the folder by name.
    for (const [name, service] of services.filter(([each]) => each !== "postgres")) {
      const read = [...JSON.stringify(service).matchAll(/\/run\/secrets\/([a-z-]+)/g)].map(
        ([, secret]) => secret,
      );
      expect([name, new Set(service.secrets)]).toEqual([name, new Set(read)]);
    }
    const holders = (secret: string) =>
      services.filter(([, { secrets = [] }]) => secrets.includes(secret)).map(([name]) => name);
    expect(holders("live-api-key")).toEqual(["poller"]);
    expect(holders("database-url-owner")).toEqual(["migrate"]);
    expect(holders("ops-password")).toEqual(["web"]);
    const folder = mkdtempSync(path.join(tmpdir(), "order-mirror-secrets-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const make = () => execFileSync(path.join(ROOT, "deploy/make-secrets"), [folder, "postgres", "valkey"]);
    make();
    expect(readdirSync(folder)).toEqual(expect.arrayContaining(Object.keys(compose.secrets)));
    const password = readFileSync(path.join(folder, "password-owner"), "utf8");
    make();
    expect(readFileSync(path.join(folder, "password-owner"), "utf8")).toBe(password);
  });

  it("keeps the queue's keys behind a password, and contains no secret", () => {
    for (const option of ["--maxmemory-policy noeviction", "--appendonly yes", "requirepass"])
      expect(text).toContain(option);
    expect(text).not.toMatch(/PASSWORD: (?!\$\{)/);
  });
});

describe("a release", () => {
  const workflows = ["check", "release"].map((name) => read(`.github/workflows/${name}.yml`));

  it("runs existing scripts", () => {
    for (const workflow of workflows) {
      for (const [, script = ""] of workflow.matchAll(/npm run ([\w:]+)/g))
        expect(manifest.scripts).toHaveProperty(script);
      for (const [file] of workflow.matchAll(/\.ci\/[\w-]+/g))
        expect(statSync(path.join(ROOT, file)).mode & 0o111).toBe(0o111);
    }
  });

  it("gives workflows only named rights, and write access only to jobs that publish", () => {
    const parsed = workflows.map(
      (workflow) =>
        parse(workflow) as {
          permissions: object;
          jobs: Record<string, { permissions?: Record<string, string> }>;
        },
    );
    for (const { permissions } of parsed) expect(permissions).toEqual({ contents: "read" });
    const jobs = parsed.flatMap((workflow) => Object.entries(workflow.jobs));
    const writes = jobs.filter(([, { permissions = {} }]) => Object.values(permissions).includes("write"));
    expect(writes.map(([name]) => name)).toEqual(["package", "image"]);
  });

  it("names the image by version, revision and source", () => {
    const labels = execFileSync(path.join(ROOT, ".ci/release"), ["--labels"], { encoding: "utf8" });
    const { version } = JSON.parse(read("package.json")) as { version: string };
    expect(labels).toContain(`org.opencontainers.image.version=${version}\n`);
    expect(labels).toMatch(/^org\.opencontainers\.image\.revision=[0-9a-f]{40}$/m);
    expect(labels).toMatch(/^org\.opencontainers\.image\.source=https:\/\/[^ ]+$/m);
  });
});
