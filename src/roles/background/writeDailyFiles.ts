import { PeriodNotProvedError } from "../../certificates/issue.ts";
import { provideSigningKeys } from "../../certificates/signingKey.ts";
import type { KeyPlace } from "../../certificates/signingKey.ts";
import { noteFailed, noteWritten, readDueDays } from "../../dailyFiles/dailyFiles.sql.ts";
import type { DayFile } from "../../dailyFiles/dailyFiles.sql.ts";
import { makeFileStore } from "../../dailyFiles/stores.ts";
import { writeDay } from "../../dailyFiles/writeDay.ts";
import type { Pool } from "../../database/database.ts";
import { OrderMirrorError } from "../../domain/errors.ts";
import { formatInstant } from "../../domain/order/instant.ts";
import type { LeaderTask } from "../../poll/tasks/leaderTasks.ts";
import type { DailyFiles } from "../../runtime/config/dailyFilesVariables.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";

/** Between two attempts to write the same file. */
const PAUSE_SECONDS = 60;

/**
 * After each cycle, begins to write the file of a certified day that has none yet, or one with an earlier certificate;
 * one at a time, and beside polling, because an upload may take minutes. What is written and what failed is noted in the
 * database, so another leader goes on, and people are notified.
 */
export function makeWriteDailyFiles(asked: {
  readonly pool: Pool;
  readonly sourceId: string;
  readonly place: KeyPlace;
  readonly files: DailyFiles;
  readonly logger: Logger;
}): LeaderTask {
  const { pool, sourceId, place, files, logger } = asked;
  const store = makeFileStore(files);
  /** Days whose states retention has removed before a file was written. */
  const hopeless = new Set<bigint>();
  let isWriting = false;

  async function attempt(file: DayFile, signal: AbortSignal): Promise<void> {
    const { since, name } = file;
    try {
      const keys = provideSigningKeys(place);
      const write = (path: string) => writeDay({ pool, keys, sourceId, since, path, signal });
      const { certificate, bytes } = await store.put(name, write, signal);
      const { serial, orders } = certificate;
      await noteWritten(pool, file, { serial, orders, bytes });
      logger.info({ file: name, orders, bytes, serial }, "a daily file was written");
    } catch (error) {
      if (signal.aborted) return;
      const fix = error instanceof OrderMirrorError ? error.fix : undefined;
      logger.warn({ err: error, fix, file: name }, "a daily file was not written");
      if (error instanceof PeriodNotProvedError && error.retry === "never") hopeless.add(since);
      else await noteFailed(pool, file, describe(error));
    }
  }

  return {
    name: "write daily files",
    everyMs: 0,
    concerns: ({ lastCertificate, lastBreach }) => [lastCertificate, lastBreach],
    async run({ term }) {
      if (isWriting) return "again";
      const all = await readDueDays(pool, { sourceId, place: files.place, pauseSeconds: PAUSE_SECONDS });
      const due = all.filter((day) => !hopeless.has(day.since));
      if (due.length === 0) return;
      const since = due.find(({ rests }) => !rests)?.since;
      if (since === undefined) return "again";
      const name = `${sourceId}/${formatInstant(since).slice(0, 10)}.parquet`;
      isWriting = true;
      void attempt({ sourceId, since, place: files.place, name }, term.signal)
        .catch((error: unknown) => logger.warn({ err: error, file: name }, "a failure was not noted"))
        .finally(() => (isWriting = false));
      return "again";
    },
  };
}

/** Other errors may name personal data. */
function describe(error: unknown): string {
  return error instanceof OrderMirrorError ? error.message : "An unexpected error; the poller's log has it.";
}
