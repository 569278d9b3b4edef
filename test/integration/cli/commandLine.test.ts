import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Command } from "commander";
import { describe, expect, it, onTestFinished } from "vitest";
import { runCommand } from "../../support/programs/command.ts";
import { runProgram } from "../../support/programs/program.ts";
import { makeProgram } from "../../../src/cli/program.ts";
import { makeTestDatabase, openTestDatabase } from "../../support/servers/database.ts";
import { addSource, insertOrder, orderText } from "../../support/mirror/orders.ts";

const { database } = await openTestDatabase();
await addSource(database.pool, "live");
await database.pool.query(
  "insert into mirror.outgoing_endpoints (endpoint_id, source_ids, listed_at) values ('x', '{live}', now() + interval '1 day')",
);

interface Leaf {
  readonly path: readonly string[];
  readonly options: readonly { readonly flag: string; readonly takesTime: boolean }[];
  /** Values for its required arguments. */
  readonly words: readonly string[];
}

function listLeaves(command: Command, parents: readonly string[] = []): Leaf[] {
  if (command.commands.length > 0)
    return command.commands.flatMap((each) => listLeaves(each, [...parents, each.name()]));
  const options = command.options.map(({ long, flags }) => ({
    flag: long ?? flags,
    takesTime: flags.includes("<when>"),
  }));
  const words = command.registeredArguments
    .filter(({ required }) => required)
    .map(({ argChoices }) => argChoices?.[0] ?? "x")
    .concat(command.options.flatMap(({ mandatory, long }) => (mandatory ? [long ?? "", "P1D"] : [])));
  return [{ path: parents, options, words }];
}

const leaves = listLeaves(await makeProgram());
const withJson = leaves.filter(({ options }) => options.some(({ flag }) => flag === "--json"));
const nameOf = ({ path }: Leaf) => path.join(" ");

it("every command with output for programs can print JSON", () => {
  const running = ["demo", "poller", "psql", "sandbox", "up", "web", "worker"];
  const without = leaves.filter((leaf) => !withJson.includes(leaf)).map(nameOf);
  expect(without.toSorted()).toEqual(running);
});

let stdout: string;
let stderr: string;

/** Returns the exit code. */
async function run(args: readonly string[], databaseUrl = database.url): Promise<number | null> {
  const result = await runCommand(args, { databaseUrl });
  ({ stdout, stderr } = result);
  return result.code;
}

// Nothing listens there.
const AWAY = "postgres://nobody@127.0.0.1:9/none";

describe("with --json", () => {
  it.each(withJson.map((leaf) => [nameOf(leaf), leaf] as const))(
    "%s tells wrong usage as JSON",
    async (_, leaf) => {
      expect(await run([...leaf.path, ...leaf.words, "--json", "--nosuch"])).toBe(2);
      expect(JSON.parse(stdout)).toEqual({
        error: { message: "unknown option '--nosuch'", fix: null, exitCode: 2 },
      });
    },
  );

  it.each(withJson.map((leaf) => [nameOf(leaf), leaf] as const))(
    "%s tells nothing but JSON when the database is away",
    async (_, leaf) => {
      await run([...leaf.path, ...leaf.words, "--json"], AWAY);
      expect(() => JSON.parse(stdout) as unknown).not.toThrow();
    },
  );
});

describe("what is not there", () => {
  it.each([["order"], ["refetch"], ["erase", "--yes"]])(
    "an unknown order is exit 3 of %s, with a fix",
    async (...words) => {
      const [command = "", ...more] = words;
      expect(await run([command, "NIX", ...more, "--json"])).toBe(3);
      const { error } = JSON.parse(stdout) as { error: { message: string; fix: string; exitCode: number } };
      expect(error).toMatchObject({ message: "No order NIX in the mirror.", exitCode: 3 });
      expect(error.fix).toMatch(/check the reference/i);
      expect(stderr).toContain("order-mirror: No order NIX in the mirror.\n  fix: ");
    },
  );

  it("an unknown status is named, and the nearest one", async () => {
    expect(await run(["orders", "--status", "deliverd"])).toBe(2);
    expect(stderr).toContain("unknown status deliverd; did you mean delivered?");
    expect(await run(["orders", "--status", "delivered"])).toBe(0);
  });
});

const TIMED = leaves.flatMap((leaf) =>
  leaf.options.flatMap(({ flag, takesTime }) => (takesTime ? [[nameOf(leaf), flag, leaf] as const] : [])),
);

describe("an instant or a duration", () => {
  it("is accepted by these commands", () => {
    expect([...new Set(TIMED.map(([name]) => name))]).toEqual([
      "backfill",
      "verify",
      "export",
      "outgoing replay",
    ]);
  });

  it.each(TIMED)("is parsed in the same way: %s %s", async (_, flag, leaf) => {
    const isPeriod = leaf.words.includes("--from");
    const rest = isPeriod ? (flag === "--to" ? ["--from", "P9D"] : []) : leaf.words;
    const ask = async (when: string) => {
      stderr = "";
      const code = await run([...leaf.path, ...rest, flag, when], AWAY);
      return { code, stderr };
    };
    for (const when of ["yesterday", "2x", "2026-01-32", "2026-01-31T00:00:00"]) {
      const { code, stderr: text } = await ask(when);
      expect(code).toBe(2);
      expect(text).toContain(
        `${JSON.stringify(when)} is neither a duration, a date, nor an instant. Write a duration such as 7d or P30D, a date in UTC such as 2026-01-31, or an instant with its time zone such as 2026-01-31T00:00:00Z.`,
      );
    }
    for (const when of ["P2D", "PT36H", "P1M", "2h", "2026-01-31", "2026-01-31T00:00:00Z"])
      expect(await ask(when)).not.toMatchObject({ stderr: expect.stringContaining("neither") });
  });
});

it.each([
  ["export"],
  ["verify", "--from", "P1D"],
  ["backfill", "--from", "P1D"],
  ["refetch", "DO-1"],
  ["refetch", "DO-1", "--source", "live"],
])("says that there is no source yet: %s %s", async (...args) => {
  const empty = await makeTestDatabase();
  onTestFinished(() => empty.drop());
  expect(await run(args, empty.url)).toBe(2);
  expect(stderr).toContain("order-mirror: The mirror has no source yet.\n  fix: Configure one,");
});

it.each([
  [["order", "X", "--source", "other"], "There is no source other."],
  [["tail", "--source", "other"], "There is no source other."],
  [["replay", "--source", "other", "--yes"], "There is no source other."],
  [
    ["replay", "--reason", "wrong-mode", "--yes"],
    "No entry has it: unknown reason wrong-mode; did you mean wrong_mode?",
  ],
  [["export", "--since", "7d", "--until", "8d"], "The period ends before it begins."],
  [["backfill"], "required option '--from <when>' not specified"],
  [["backfill", "--from", "P1D", "--to", "P2D"], "The period ends before it begins."],
  [["verify", "--from", "2062-01-01T00:00:00Z"], "The period lies in the future."],
  [["verify", "--from", "P1D", "--source", "other"], "There is no source other."],
  ...["order", "refetch", "erase", "tail --order"].map((name): [string[], string] => [
    [...name.split(" "), ""],
    "It must be the name of an order.",
  ]),
  [["orders", "--limit", "10001"], "It must be a whole number of at most 10000."],
  [["outgoing", "remove", "x", "--yes"], "A worker lists x, or did so within the last 30 seconds."],
  ...["retry", "test", "remove", "replay --since=P1D"].map((name): [string[], string] => [
    ["outgoing", ...name.split(" "), "nix"],
    "There is no endpoint nix.",
  ]),
])("refuses what would show, write or do nothing true: %s", async (args, message) => {
  expect(await run(args)).toBe(2);
  expect(stderr).toContain(message);
  expect(stdout).toBe("");
});

it("says of an unknown order how to wait for it", async () => {
  expect(await run(["order", "DO-NEW"])).toBe(3);
  expect(stderr).toContain("with the next poll (every 30 s): order-mirror tail --order DO-NEW\n");
});

it("lists orders, the latest change first", async () => {
  await addSource(database.pool, "test");
  for (const [sourceId, reference, status, second] of [
    ["live", "A", "created", 1],
    ["live", "B", "cancelled", 2],
    ["test", "C", "created", 3],
  ] as const) {
    const updatedAt = `2026-01-01T00:00:0${second}Z`;
    await insertOrder(database.pool, sourceId, orderText({ reference, status, updatedAt }));
  }
  const listed = async (...options: string[]) => {
    expect(await run(["orders", "--json", ...options])).toBe(0);
    return (JSON.parse(stdout) as { reference: string }[]).map(({ reference }) => reference);
  };
  expect(await listed()).toEqual(["C", "B", "A"]);
  expect(await listed("--source", "live", "--limit", "1")).toEqual(["B"]);
  expect(await listed("--status", "created")).toEqual(["C", "A"]);
  for (const [limit, notice] of [
    ["3", ""],
    ["2", "There are more; --limit shows up to 10000.\n"],
    ["0", "There are more; --limit shows up to 10000.\n"],
  ] as const) {
    expect(await run(["orders", "--limit", limit])).toBe(0);
    expect([limit, stderr]).toEqual([limit, notice]);
  }
  expect(await run(["orders", "--source", "test"])).toBe(0);
  expect(stdout).toMatch(/^source +reference .*\ntest +C +created +2026-01-01T00:00:03Z\n$/);
});

it("a name that several orders have means all, or is refused where one is meant", async () => {
  for (const sourceId of ["live", "test"])
    await insertOrder(database.pool, sourceId, orderText({ reference: "TWO" }));
  expect(await run(["refetch", "TWO"])).toBe(0);
  expect(stdout.match(/^Order TWO of source (?:live|test) will be read again/gm)).toHaveLength(2);
  for (const args of [
    ["tail", "--order", "TWO"],
    ["erase", "TWO", "--yes"],
  ]) {
    expect(await run(args)).toBe(2);
    expect(stderr).toMatch(
      /^order-mirror: TWO matches several orders\.\n {2}fix: .* TWO of \w+, TWO of \w+\.\n$/,
    );
  }
});

it("says when an order has more observations than it shows", async () => {
  const observe = (count: number) =>
    database.pool.query(
      "insert into mirror.history (source_id, reference, via, verdict) select 'live', 'DO-9', 'webhook', 'duplicate' from generate_series(1, $1)",
      [count],
    );
  await insertOrder(database.pool, "live", orderText({ reference: "DO-9" }));
  await observe(199);
  expect(await run(["order", "DO-9"])).toBe(0);
  expect(stderr).toBe("");
  await observe(1);
  expect(await run(["order", "DO-9"])).toBe(0);
  expect(stderr).toBe("Only the newest 200 are shown; the older ones: reporting.order_history.\n");
});

it("status shows what is not a problem yet to people and to programs", async () => {
  await addSource(database.pool, "young");
  // The others have only just come, however long the tests before this one took.
  await database.pool.query(
    "update mirror.sources set created_at = now() - case source_id when 'young' then interval '1 minute' else '0' end",
  );
  expect(await run(["status"])).toBe(0);
  expect(stdout).toContain("… Watching: No poller runs for young.");
  expect(await run(["status", "--json"])).toBe(0);
  const sources = JSON.parse(stdout) as { sourceId: string; beginning: { name: string }[] }[];
  const young = sources.find(({ sourceId }) => sourceId === "young");
  expect(young?.beginning).toContainEqual(
    expect.objectContaining({ name: "OrderMirrorNoLeader", subject: "young", severity: "critical" }),
  );
});

it("psql gets the password by its environment, which others on this machine cannot read", async () => {
  const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-psql-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  await writeFile(path.join(folder, "psql"), '#!/bin/sh\necho "$@ $PGPASSWORD"\nexit 3\n', { mode: 0o755 });
  const env = { PATH: `${folder}:${process.env["PATH"]}` };
  const { password } = new URL(database.url);
  const shown = await runProgram(["psql", "-c", "select 1"], { DATABASE_URL: database.url, ...env });
  const address = database.url.replace(`:${password}@`, "@");
  expect(shown).toMatchObject({ code: 3, stdout: `-c select 1 --dbname ${address} ${password}\n` });
});

it("config names unknown variables, and prints no secret", async () => {
  const env = { OPS_PASWORD: "x", API_TOKENS: "a-token-of-nobody-else@live" };
  const shown = await runCommand(["config"], { databaseUrl: database.url, env });
  expect(shown).toMatchObject({ code: 0, stderr: expect.stringContaining("did you mean OPS_PASSWORD?") });
  expect(shown.stdout).toMatch(/^API_TOKENS +/m);
  for (const secret of ["a-token-of", new URL(database.url).password])
    expect(shown.stdout).not.toContain(secret);
});
