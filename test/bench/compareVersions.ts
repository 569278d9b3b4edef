import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { asked, ROUNDS } from "./effort.ts";
import { formatValue, median, type Figure } from "./measure.ts";

const ROOT = path.resolve(import.meta.dirname, "../..");
const run = promisify(execFile);

/**
 * Measures the sections alternately with the version `ref` and with the current checkout, each with its own bench, so that
 * drift of the machine affects both equally. Figures that only one of them has are left out.
 *
 * Rejects when git does not know `ref`, or when a version could not be measured.
 */
export async function compareVersions(ref: string, sections: readonly string[]) {
  const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-compare-"));
  // An older program's embedded Postgres runs under an account that must be able to read its modules.
  await chmod(folder, 0o755);
  const former = path.join(folder, "former");
  try {
    await checkOut(ref, former);
    const compared: ReturnType<typeof summarize>[] = [];
    for (const section of sections) compared.push(...(await compareSection(section, former)));
    return compared;
  } finally {
    await rm(folder, { recursive: true, force: true });
    await run("git", ["worktree", "prune"], { cwd: ROOT });
  }
}

async function checkOut(ref: string, tree: string): Promise<void> {
  await run("git", ["worktree", "add", "--detach", tree, `${ref}^{commit}`], { cwd: ROOT });
  const [ours, theirs] = await Promise.all(
    [ROOT, tree].map((root) => readFile(path.join(root, "package-lock.json"), "utf8")),
  );
  if (ours === theirs) await symlink(path.join(ROOT, "node_modules"), path.join(tree, "node_modules"));
  else await run("npm", ["ci", "--no-audit", "--no-fund"], { cwd: tree });
}

async function compareSection(section: string, former: string) {
  const rounds: { before: Figure[]; now: Figure[] }[] = [];
  for (let round = 1; round <= ROUNDS; round += 1) {
    process.stderr.write(`${section} · round ${round} of ${ROUNDS}\n`);
    // Each goes first equally often, because the second one finds the machine warmer.
    const before = round % 2 === 1 ? await measure(former, section) : undefined;
    const now = await measure(ROOT, section);
    rounds.push({ before: before ?? (await measure(former, section)), now });
  }
  const names = rounds[0]?.now.map(({ name }) => name) ?? [];
  return names.flatMap((name) => {
    const pairs = rounds.flatMap(({ before, now }) => {
      const [one, other] = [before, now].map((figures) => figures.find((figure) => figure.name === name));
      return one && other && one.unit === other.unit ? [{ before: one, now: other }] : [];
    });
    return pairs.length === 0 ? [] : [summarize(pairs)];
  });
}

/** One figure of both versions: medians over the rounds. */
function summarize(pairs: readonly { before: Figure; now: Figure }[]) {
  const ratios = pairs.map(({ before, now }) => now.value.median / before.value.median);
  const { section = "", name = "", unit = "" } = pairs[0]?.now ?? {};
  const medians = (read: (figure: Figure) => number) => ({
    before: median(pairs.map(({ before }) => read(before))),
    now: median(pairs.map(({ now }) => read(now))),
  });
  const hasLimit = pairs.every(({ before, now }) => before.ofLimit !== null && now.ofLimit !== null);
  return {
    section,
    name,
    unit,
    ...medians(({ value }) => value.median),
    /** `now` divided by `before`, round by round. */
    ratio: { min: Math.min(...ratios), median: median(ratios), max: Math.max(...ratios) },
    /** Of the ratios to each version's own limit; null for the limit itself, and without one. */
    ofLimit: hasLimit ? medians(({ ofLimit }) => ofLimit ?? 0) : null,
  };
}

/** All runs of a section: a single one would compare a server that has just started with one that has been busy for a while. */
async function measure(tree: string, section: string): Promise<Figure[]> {
  const options = ["--section", section, "--json", ...(asked.quick ? ["--quick"] : [])];
  const child = spawn("npm", ["run", "--silent", "bench", "--", ...options], {
    cwd: tree,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, "close")]);
  if (code !== 0) throw new Error(`the bench in ${tree} ended with ${code}: section ${section}`);
  return JSON.parse(output) as Figure[];
}

/** The rows of a table: the head first. */
export function tabulate(ref: string, figures: Awaited<ReturnType<typeof compareVersions>>): string[][] {
  const rows = figures.map(({ section, name, unit, before, now, ratio, ofLimit }) => [
    section,
    name,
    `${formatValue(before)} ${unit}`,
    `${formatValue(now)} ${unit}`,
    `${ratio.median.toFixed(2)} (${ratio.min.toFixed(2)}–${ratio.max.toFixed(2)})`,
    ofLimit === null ? "" : `${ofLimit.before.toFixed(2)} → ${ofLimit.now.toFixed(2)}`,
  ]);
  return [["section", "what", ref, "here", "ratio (min–max)", "of limit"], ...rows];
}
