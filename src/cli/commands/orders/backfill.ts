import type { Command } from "commander";
import { formatInstant } from "../../../domain/order/instant.ts";
import type { PeriodRequest } from "../../../poll/ledger/periodRequests.sql.ts";
import { ProblemsFoundError, formatSpan, printLine, printNotice } from "../../output/terminal.ts";
import { withMirror } from "../../input/session.ts";
import { addRequestOptions, followRequest } from "../../output/followRequest.ts";
import type { RequestOptions } from "../../output/followRequest.ts";

export function register(program: Command): void {
  const command = program
    .command("backfill")
    .description("read a past period from the provider, newest part first, while polling continues");
  addRequestOptions(command, "P90D").action((options: RequestOptions) =>
    withMirror(({ pool }) =>
      followRequest(pool, options, {
        kind: "backfill",
        report: (ended) => report(ended, options.json === true),
      }),
    ),
  );
}

function report({ orders, requests, elapsedMs, unproved, historySince }: PeriodRequest, json: boolean): void {
  if (!json) {
    printLine(`Read ${orders} orders with ${requests} requests in ${formatSpan(elapsedMs)}.`);
    if (historySince !== null) {
      printLine(`The mirror is complete from ${formatInstant(historySince, 0)} on.`);
    }
  }
  if (unproved > 0) {
    printNotice(`${unproved} parts could not be proved complete: many orders share one timestamp there.`);
    throw new ProblemsFoundError("parts of the period could not be proved complete");
  }
}
