import { ConfigurationError } from "../domain/errors.ts";
import type { SourceConfig } from "../runtime/config/config.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";

type Listener = (sources: readonly SourceConfig[]) => Promise<void> | void;

/** The configured sources of a process that need not be restarted when one is added, changed or removed. */
export interface LiveSources {
  /** `listener` gets all sources after each change, one change after another. */
  follow(listener: Listener): void;
  /** Reads the configuration again. What is wrong with it is logged, and everything stays as it is. */
  reload(): Promise<void>;
}

export function makeLiveSources(deps: {
  readonly sources: readonly SourceConfig[];
  /** Throws ConfigurationError. */
  readonly readSources: () => readonly SourceConfig[];
  readonly logger: Logger;
}): LiveSources {
  const { readSources, logger } = deps;
  const listeners: Listener[] = [];
  let current = deps.sources;
  let last: Promise<void> = Promise.resolve();

  async function reloadNow(): Promise<void> {
    try {
      const sources = readSources();
      refuseOtherModes(current, sources);
      const before = current;
      current = sources;
      for (const listener of listeners) await listener(sources);
      logger.info(describeChange(before, sources), "read the sources again");
    } catch (error) {
      logger.error({ err: error }, "the sources could not be read again");
    }
  }

  return {
    follow: (listener) => void listeners.push(listener),
    reload() {
      last = last.then(reloadNow);
      return last;
    },
  };
}

/** Test and live orders of one source would mix; sources/sources.sql.ts refuses the same for what was stored long ago. */
function refuseOtherModes(before: readonly SourceConfig[], after: readonly SourceConfig[]): void {
  const changed = after.filter(({ sourceId, mode }) =>
    before.some((each) => each.sourceId === sourceId && each.mode !== mode),
  );
  if (changed.length === 0) return;
  const names = changed.map(({ sourceId }) => sourceId).join(", ");
  throw new ConfigurationError(`The mode of source ${names} differs from what it was.`, {
    fix: "Give the source of the other mode another name.",
  });
}

/** True when nothing about a source is different. */
export function isSameSource(left: SourceConfig, right: SourceConfig): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}

function describeChange(before: readonly SourceConfig[], after: readonly SourceConfig[]) {
  const find = (sources: readonly SourceConfig[], id: string) =>
    sources.find(({ sourceId }) => sourceId === id);
  const names = (sources: readonly SourceConfig[]) => sources.map(({ sourceId }) => sourceId);
  return {
    added: names(after.filter(({ sourceId }) => find(before, sourceId) === undefined)),
    changed: names(
      after.filter((source) => {
        const known = find(before, source.sourceId);
        return known !== undefined && !isSameSource(known, source);
      }),
    ),
    removed: names(before.filter(({ sourceId }) => find(after, sourceId) === undefined)),
  };
}
