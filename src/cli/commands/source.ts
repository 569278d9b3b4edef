import type { Command } from "commander";
import { ConfigurationError } from "../../domain/errors.ts";
import { wordFor } from "../../domain/wordFor.ts";
import { nameProvider } from "../../sources/configuredSources.ts";
import type { Config } from "../../config/config.ts";
import type { Pool } from "../../database/database.ts";
import { adoptSource, readSource, setPaused } from "../../sources/sources.sql.ts";
import { audited, chooseSource, isAgreed, nameAccount, withMirror, type Mirror } from "../input/session.ts";
import { countOf, printJson, printLine, printNotice } from "../output/terminal.ts";

interface Options {
  readonly yes?: boolean;
  readonly json?: boolean;
}

export function register(program: Command): void {
  const source = program
    .command("source")
    .description("pause or resume polling of a source, or assign it to another provider");
  const add = (name: string, description: string) =>
    source
      .command(name)
      .argument("<id>", "name of the source")
      .description(description)
      .option("--json", "print JSON");
  add("pause", "stop polling it, within half a minute; events are still received and applied").action(
    (id: string, options: Options) =>
      withMirror((mirror) => change(mirror, id, { ...options, paused: true })),
  );
  add("resume", "resume polling from where it stopped").action((id: string, options: Options) =>
    withMirror((mirror) => change(mirror, id, { ...options, paused: false })),
  );
  add(
    "adopt",
    "assign another provider's or organization's source to the configured one, and read its history again",
  )
    .option("--yes", "do not ask for confirmation")
    .action((id: string, options: Options) => withMirror((mirror) => adopt(mirror, id, options)));
}

async function change(
  { pool }: Mirror,
  id: string,
  { paused, json }: Options & { paused: boolean },
): Promise<void> {
  const sourceId = await chooseSource(pool, id);
  const action = { action: paused ? "pause" : "resume", sourceId, target: `source ${sourceId}` };
  const changed = await audited(pool, action, () => setPaused(pool, { sourceId, paused }), Number);
  if (json === true) return printJson({ sourceId, paused, changed });
  // Whether a poller runs is another question, which status answers.
  const [now, before] = paused ? ["now paused", "already paused"] : ["no longer paused", "not paused"];
  printLine(`Polling of source ${sourceId} is ${changed ? now : before}.`);
  if (paused) printNotice(`Next: order-mirror source resume ${sourceId}`);
}

async function adopt({ pool, config }: Mirror, id: string, { yes, json }: Options): Promise<void> {
  const { sourceId, provider, baseUrl, former, refusedBranches } = await findAdoption(pool, config, id);
  if (former === provider && refusedBranches === null) {
    if (json === true) return printJson({ sourceId, provider, adopted: false });
    return printLine(`Source ${sourceId} already belongs to ${provider}.`);
  }
  // Who had it and who shall have it: providers, or organizations of one.
  const names =
    former === provider
      ? ["its former organization", `the organization with the branches ${refusedBranches ?? "not known"}`]
      : [former ?? "an unknown provider", provider];
  const question = `Move source ${sourceId} from ${names[0]} to ${names[1]}, and read its history again?`;
  if (!(await isAgreed({ yes }, question))) return;
  const adoption = await adoptSource(pool, { sourceId, provider, baseUrl, person: nameAccount() });
  if (adoption === undefined) {
    throw new ConfigurationError(`A poller is still reading source ${sourceId}.`, {
      fix: "Stop all order-mirror processes; a killed poller holds its lease for 15 seconds. Then try again.",
    });
  }
  if (json === true) return printJson({ sourceId, provider, adopted: true, ...adoption });
  printLine(`Source ${sourceId} now belongs to ${names[1]}; before, it belonged to ${names[0]}.`);
  printLine("Its completeness is unproved until its history has been read again.");
  const { orders } = adoption;
  if (orders > 0)
    printLine(
      `Its ${countOf(orders, "order")} ${wordFor(orders, "stays", "stay")}; polling compares them with the new provider.`,
    );
  printNotice("Next: start the processes; order-mirror status");
}

async function findAdoption(pool: Pool, config: Config, id: string) {
  const sourceId = await chooseSource(pool, id);
  const configured = config.sources.find((source) => source.sourceId === sourceId);
  if (configured === undefined) {
    throw new ConfigurationError(`Source ${sourceId} is not configured, so its new provider is unknown.`, {
      fix: "Set the new address and key first: DELIVERY_BASE_URL and its key, or SOURCES_FILE.",
    });
  }
  const stored = await readSource(pool, sourceId);
  return {
    sourceId,
    provider: nameProvider(configured),
    baseUrl: configured.baseUrl,
    former: stored?.provider ?? null,
    refusedBranches: stored?.refusedBranches ?? null,
  };
}
