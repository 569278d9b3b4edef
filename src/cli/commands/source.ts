import type { Command } from "commander";
import { setPaused } from "../../sources/sources.sql.ts";
import { withMirror } from "../input/session.ts";
import { chooseSource } from "../input/sourceChoice.ts";
import { printJson, printLine, printNotice } from "../output/terminal.ts";

export function addSourceCommand(program: Command): void {
  const source = program.command("source").description("pause and resume the polling of one source");
  source
    .command("pause")
    .argument("<id>", "name of the source")
    .description("stop polling it, within half a minute; events are received and applied all the same")
    .option("--json", "print JSON")
    .action((id: string, options: { json?: boolean }) => change(id, { ...options, paused: true }));
  source
    .command("resume")
    .argument("<id>", "name of the source")
    .description("poll it again, from where polling stopped")
    .option("--json", "print JSON")
    .action((id: string, options: { json?: boolean }) => change(id, { ...options, paused: false }));
}

async function change(
  id: string,
  { paused, json }: { paused: boolean; json?: boolean | undefined },
): Promise<void> {
  const { sourceId, changed } = await withMirror(async ({ pool }) => {
    const known = await chooseSource(pool, id);
    return { sourceId: known, changed: await setPaused(pool, { sourceId: known, paused }) };
  });
  if (json === true) {
    printJson({ sourceId, paused, changed });
    return;
  }
  const word = changed ? "now" : "already";
  printLine(`Polling of source ${sourceId} is ${word} ${paused ? "paused" : "under way"}.`);
  if (paused) printNotice(`Next: order-mirror source resume ${sourceId}`);
}
