import { Option } from "commander";
import type { Command } from "commander";
import { CARD_FORMATS, WRITE_CARD } from "../../../card/cardFormats.ts";
import type { CardFormat } from "../../../card/cardFormats.ts";
import { makeReportCard, monthPeriod } from "../../../card/reportCard.ts";
import { readProviderFigures } from "../../../card/reportCard.sql.ts";
import { ConfigurationError } from "../../../domain/errors.ts";
import { withMirror } from "../../input/session.ts";
import { chooseSource, noSource } from "../../input/sourceChoice.ts";
import { printLine } from "../../output/terminal.ts";

interface Options {
  readonly month: string;
  readonly source?: string;
  readonly format: CardFormat;
}

/** `report-card`: what the provider did in a month, for the business and to be sent to the provider. */
export function register(program: Command): void {
  program
    .command("report-card")
    .description(
      "print what the provider did in a month: delays, lost events, refused requests, late commits",
    )
    .requiredOption("--month <month>", "a month of UTC, such as 2026-11")
    .option("--source <id>", "the source; required if there are several")
    .addOption(new Option("--format <format>", "how to print it").choices(CARD_FORMATS).default("markdown"))
    .action((options: Options) =>
      withMirror(async ({ pool }) => {
        const { month, format } = options;
        const period = monthPeriod(month);
        if (period === undefined) {
          throw new ConfigurationError("--month is not a month.", { fix: "Write it like 2026-11." });
        }
        const sourceId = await chooseSource(pool, options.source);
        const figures = await readProviderFigures(pool, { sourceId, ...period });
        if (figures === undefined) throw noSource();
        printLine(WRITE_CARD[format](makeReportCard({ sourceId, month, period }, figures)).trimEnd());
      }),
    );
}
