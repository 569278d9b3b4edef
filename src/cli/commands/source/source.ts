import type { Command } from "commander";
import { ConfigurationError } from "../../../domain/errors.ts";
import { nameProvider } from "../../../roles/recordSources.ts";
import type { Config } from "../../../runtime/config/config.ts";
import type { Pool } from "../../../database/database.ts";
import { adoptSource } from "../../../sources/adoptSource.sql.ts";
import type { Adoption } from "../../../sources/adoptSource.sql.ts";
import { readSource, setPaused } from "../../../sources/sources.sql.ts";
import { audited, chooseSource, confirm, nameAccount, withMirror } from "../../input/session.ts";
import { printJson, printLine, printNotice } from "../../output/terminal.ts";

export function register(program: Command): void {
  const source = program
    .command("source")
    .description("pause or resume polling of a source, or assign it to another provider");
  const switches = {
    pause: "stop polling it, within half a minute; events are still received and applied",
    resume: "resume polling from where it stopped",
  };
  for (const [name, description] of Object.entries(switches))
    source
      .command(name)
      .argument("<id>", "name of the source")
      .description(description)
      .option("--json", "print JSON")
      .action((id: string, options: { json?: boolean }) =>
        change(id, { ...options, paused: name === "pause" }),
      );
  source
    .command("adopt")
    .argument("<id>", "name of the source")
    .description(
      "assign another provider's or organization's source to the configured one, and read its history again",
    )
    .option("--yes", "do not ask for confirmation")
    .option("--json", "print JSON")
    .action((id: string, options: AdoptOptions) => withMirror((deps) => adopt(id, { ...deps, ...options })));
}

interface AdoptOptions {
  readonly yes?: boolean;
  readonly json?: boolean;
}

async function adopt(
  id: string,
  { pool, config, yes, json }: AdoptOptions & { pool: Pool; config: Config },
): Promise<void> {
  const { sourceId, provider, baseUrl, former, refusedBranches } = await findAdoption(pool, config, id);
  if (former === provider && refusedBranches === null) {
    printLine(
      json === true
        ? JSON.stringify({ sourceId, provider, adopted: false })
        : `Source ${sourceId} already belongs to ${provider}.`,
    );
    return;
  }
  const names = nameOwners({ former, provider, refusedBranches });
  const question = `Move source ${sourceId} from ${names.former} to ${names.next}, and read its history again?`;
  if (yes !== true && !(await confirm(question))) return;
  const adoption = await adoptSource(pool, { sourceId, provider, baseUrl, person: nameAccount() });
  if (adoption === undefined) {
    throw new ConfigurationError(`A poller is still reading source ${sourceId}.`, {
      fix: "Stop all order-mirror processes; a killed poller holds its lease for 15 seconds. Then try again.",
    });
  }
  if (json === true) printJson({ sourceId, provider, adopted: true, ...adoption });
  else printAdoption(adoption, { sourceId, ...names });
}

/** Who had a source and who shall have it: providers, or organizations of one. */
function nameOwners(given: { former: string | null; provider: string; refusedBranches: string | null }) {
  const { former, provider, refusedBranches } = given;
  return former === provider
    ? {
        former: "its former organization",
        next: `the organization with the branches ${refusedBranches ?? "not known"}`,
      }
    : { former: former ?? "an unknown provider", next: provider };
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
  if (stored !== undefined && stored.mode !== configured.mode) {
    throw new ConfigurationError(
      `Source ${sourceId} holds ${stored.mode} orders; a key of the other mode cannot be used for it.`,
      {
        fix: "Give the source of the other mode another name.",
      },
    );
  }
  return {
    sourceId,
    provider: nameProvider(configured),
    baseUrl: configured.baseUrl,
    former: stored?.provider ?? null,
    refusedBranches: stored?.refusedBranches ?? null,
  };
}

function printAdoption(
  { orders }: Adoption,
  { sourceId, former, next }: { sourceId: string; former: string; next: string },
): void {
  printLine(`Source ${sourceId} now belongs to ${next}; before, it belonged to ${former}.`);
  printLine("Its completeness is unproved until its history has been read again.");
  if (orders > 0) printLine(`Its ${orders} orders stay; polling compares them with the new provider.`);
  printNotice("Next: start the processes; order-mirror status");
}

async function change(
  id: string,
  { paused, json }: { paused: boolean; json?: boolean | undefined },
): Promise<void> {
  const { sourceId, changed } = await withMirror(async ({ pool }) => {
    const known = await chooseSource(pool, id);
    const action = { action: paused ? "pause" : "resume", sourceId: known, target: `source ${known}` };
    const set = () => setPaused(pool, { sourceId: known, paused });
    return { sourceId: known, changed: await audited(pool, action, set, Number) };
  });
  if (json === true) {
    printJson({ sourceId, paused, changed });
    return;
  }
  const word = changed ? "now" : "already";
  printLine(`Polling of source ${sourceId} is ${word} ${paused ? "paused" : "running"}.`);
  if (paused) printNotice(`Next: order-mirror source resume ${sourceId}`);
}
