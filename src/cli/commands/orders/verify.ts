import type { Command } from "commander";
import type { PeriodRequest } from "../../../poll/ledger/periodRequests.sql.ts";
import {
  ProblemsFoundError,
  alignColumns,
  formatSpan,
  printLine,
  printNotice,
} from "../../output/terminal.ts";
import { withMirror } from "../../input/session.ts";
import { addRequestOptions, followRequest } from "../../output/followRequest.ts";
import type { RequestOptions } from "../../output/followRequest.ts";
import { commandOn } from "../../../domain/shellWord.ts";

export function register(program: Command): void {
  const command = program
    .command("verify")
    .description("compare a period of the mirror with the provider, and repair differences");
  addRequestOptions(command, "P2D").action((options: RequestOptions) =>
    withMirror(({ pool }) =>
      followRequest(pool, options, {
        kind: "verification",
        report: (ended) => report(ended, options.json === true),
      }),
    ),
  );
}

function report(ended: PeriodRequest, json: boolean): void {
  const { orders, requests, elapsedMs, examples } = ended;
  const { missing, stale, contradicted, differing, extra, unreadable } = ended;
  if (!json) {
    printLine(`Compared ${orders} orders with ${requests} requests in ${formatSpan(elapsedMs)}.`);
    const rows = [
      ["  missing", String(missing), "the mirror did not have them"],
      ["  stale", String(stale), "the mirror had an older state"],
      [
        "  contradicted",
        String(contradicted),
        "the mirror had a later state that the provider does not show",
      ],
      ["  differing", String(differing), "the same updatedAt, different content"],
      ["  extra", String(extra), "the provider does not have them"],
      [
        "  unreadable",
        String(unreadable),
        "no read of the single order has shown its state yet; verify again",
      ],
    ];
    for (const line of alignColumns(rows)) printLine(line);
  }
  const differences = missing + stale + contradicted + differing + extra;
  if (differences + unreadable === 0) return;
  if (!json && differences > 0) printNotice("All of them were repaired.");
  const [example] = examples;
  if (!json && example !== undefined) printNotice(`To inspect one: ${commandOn("order", example)}`);
  throw new ProblemsFoundError(
    differences > 0 ? "the mirror differed from the provider" : "some orders could not be compared",
  );
}
